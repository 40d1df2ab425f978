"""Rows of tables that are chosen by the values of other columns."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from test_corpus import PACKERS

from seq2seq.config import CleaningConfig, CorpusConfig, DataConfig, EvaluateConfig, TokenizerConfig
from seq2seq.data.corpus import read_pairs
from seq2seq.data.pipeline import prepare
from seq2seq.data.sources import evaluation_pairs, find_sources, load_pairs
from seq2seq.errors import DataError
from seq2seq.evaluation.evaluate import _test_set

ROWS = [
    {"en": f"We see {n} dogs.", "fr": f"Nous voyons {n} chiens.",
     "source": ("web", "books", "talks")[n % 3], "year": 2018 + n % 2, "score": n / 4,
     "clean": n < 6, "note": None if n % 5 else "x"}
    for n in range(12)
]  # fmt: skip
OTHERS = ("source", "year", "score", "clean", "note")


def write(path: Path, rows=ROWS) -> Path:
    kind = path.name.removesuffix(path.suffix if path.suffix in PACKERS else "").split(".")[1]
    if kind == "parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
        return path
    if kind == "jsonl":
        text = "".join(json.dumps(row) + "\n" for row in rows)
    else:
        lines = [["" if value is None else str(value) for value in row.values()] for row in rows]
        header = [] if "bare" in path.name else [list(rows[0])]
        text = "".join("\t".join(line) + "\n" for line in [*header, *lines])
    path.write_bytes(PACKERS.get(path.suffix, bytes)(text.encode()))
    return path


def chosen(**values) -> list[tuple[str, str]]:
    """What should be read, by rows one by one."""
    return [
        (row["en"], row["fr"])
        for row in ROWS
        if all(row[name] in allowed for name, allowed in values.items())
    ]


FILES = ["a.parquet", *(f"a.{kind}{packed}" for kind in ("tsv", "jsonl")
                        for packed in ("", *PACKERS))]  # fmt: skip
# What the settings make of [2019], [true], [0.25] and [""] in YAML; see test_config.py.
WHERE = [
    ({"source": ["web"]}, {"source": ["web"]}),
    ({"source": ["web", "talks"], "year": ["2019"]}, {"source": ["web", "talks"], "year": [2019]}),
    ({"score": ["0.25", "1.0"]}, {"score": [0.25, 1.0]}),
    ({"clean": ["True"]}, {"clean": [True]}),
    ({"note": [""]}, {"note": [None]}),
]


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize(("where", "values"), WHERE)
def test_rows_are_those_that_have_the_values(name, where, values, tmp_path):
    file = write(tmp_path / name)
    assert 0 < len(chosen(**values)) < len(ROWS)
    assert list(read_pairs([file], ("en", "fr"), where)) == chosen(**values)


def test_columns_of_files_without_header_have_numbers(tmp_path):
    file = write(tmp_path / "bare.tsv")
    found = list(read_pairs([file], ("0", "1"), {"2": ["books"], "3": ["2018"]}))
    assert found == chosen(source=["books"], year=[2018])


@pytest.mark.parametrize("kind", ["parquet", "jsonl"])
def test_the_column_may_stand_beside_or_inside_a_translation(kind, tmp_path):
    rows = [
        {"source": row["source"], "translation": {k: row[k] for k in ("en", "fr", "year")}}
        for row in ROWS
    ]
    file = write(tmp_path / f"a.{kind}", rows)
    found = list(read_pairs([file], ("en", "fr"), {"source": ["web"], "year": ["2018"]}))
    assert found == chosen(source=["web"], year=[2018])


@pytest.mark.parametrize("name", ["a.parquet", "a.tsv", "a.jsonl", "bare.tsv"])
def test_a_column_that_is_not_there_is_named_with_its_setting(name, tmp_path):
    write(tmp_path / name)
    columns, where = (("0", "1"), {"9": ["x"]}) if "bare" in name else (("en", "fr"), {"s": ["x"]})
    reason = r"at least 10 are needed" if "bare" in name else r"no column 's'.* data\.where"
    with pytest.raises(DataError, match=reason):
        list(read_pairs([tmp_path / name], columns, where))


def corpus(folder: Path, **settings) -> DataConfig:
    defaults = {"path": str(folder), "test": None, "cache": str(folder / "cache"), "processes": 1}
    return DataConfig(**{**defaults, **settings})


def test_plain_text_has_no_rows_to_choose(tmp_path):
    for side in ("en", "fr"):
        (tmp_path / f"train.{side}").write_text("one\n")
    member = CorpusConfig(path=str(tmp_path), where={"source": ["web"]})
    mixed = corpus(tmp_path, train=None, val=None, path=None, members={"a": member})
    with pytest.raises(DataError, match=r"train\.en is plain text.*leave data\.where out"):
        find_sources(mixed, "train")


def test_all_splits_are_chosen_from(tmp_path):
    for split in ("train", "val", "test"):
        write(tmp_path / f"{split}.jsonl")
    data = corpus(tmp_path, test="test", where={"source": ["web"]})
    expected = chosen(source=["web"])
    assert [load_pairs(data, split) for split in ("train", "val", "test")] == [expected] * 3
    assert evaluation_pairs(data) == {"val": expected, "test": expected}
    sources, references, _ = _test_set(EvaluateConfig(bundle="x", data=data, split="test"))
    assert list(zip(sources, references, strict=True)) == expected


def test_what_is_prepared_depends_on_the_rows(tmp_path):
    write(tmp_path / "train.parquet")

    def known(**settings) -> list[object]:
        [source] = find_sources(corpus(tmp_path, **settings), "train")
        return source.identity(tmp_path / "known")

    without, some, others = (known(where=w) for w in ({}, {"source": ["web"]}, {"source": ["b"]}))
    assert without != some != others
    assert [part for part in some if part in without] == without  # as it was before `where`
    assert len(some) == len(without) + 1


MEMBERS = {"a": {"source": ["web"]}, "b": {"source": ["books"], "year": ["2018"]}}
PLAIN = CleaningConfig(filters=[], normalise=[])


def mixture(folder: Path, **where) -> DataConfig:
    members = {name: CorpusConfig(path=str(folder), test=None, where=chosen)
               for name, chosen in {**MEMBERS, **where}.items()}  # fmt: skip
    return corpus(folder, train=None, val=None, members=members)


def test_members_share_out_the_rows_of_a_file(tmp_path):
    write(tmp_path / "train.tsv.zst")
    prepared = prepare(mixture(tmp_path), PLAIN, TokenizerConfig(vocab_size=300))
    assert prepared is not None
    sizes = {name: last - first for name, first, last in prepared.members}
    assert sizes == {"a": 4, "b": len(chosen(source=["books"], year=[2018]))}


def test_a_missing_folder_is_told_with_its_member(tmp_path):
    missing = tmp_path / "missing"
    member = CorpusConfig(path=str(missing), origin="an address")
    data = corpus(tmp_path, path=None, train=None, val=None, members={"a": member})
    place = r"^member a \(its own settings are data\.members\.a\.\*\)"
    with pytest.raises(DataError, match=rf"{place}: .* not in {missing}.*, data\.path=FOLDER"):
        find_sources(data, "train")


# Values that nothing has


NOTHING = r"\.where=\{'source': \['\w+'\].*\} chooses no row of \S*train\.\w+: give values"


@pytest.mark.parametrize("name", ["train.parquet", "train.tsv", "train.jsonl"])
def test_where_that_chooses_nothing_is_named(name, tmp_path):
    write(tmp_path / name)
    data = corpus(tmp_path, val="train", where={"source": ["wbe"], "year": ["2019"]})
    with pytest.raises(DataError, match="^data" + NOTHING):
        load_pairs(data, "val")
    with pytest.raises(DataError, match="^data" + NOTHING):
        _test_set(EvaluateConfig(bundle="x", data=data, split="val"))
    with pytest.raises(DataError, match="^data" + NOTHING):
        prepare(data, CleaningConfig(filters=[]), TokenizerConfig())


def test_of_a_mixture_the_member_without_rows_is_found(tmp_path):
    write(tmp_path / "train.tsv")
    with pytest.raises(DataError, match=r"^data\.members\.b" + NOTHING):
        prepare(mixture(tmp_path, b={"source": ["x"]}), PLAIN, TokenizerConfig(vocab_size=300))


def test_a_shard_without_rows_is_nothing_special(tmp_path):
    write(tmp_path / "train-0.tsv", ROWS[1:3])
    write(tmp_path / "train-1.tsv")
    data = corpus(tmp_path, where={"source": ["web"]})
    assert load_pairs(data, "train") == chosen(source=["web"])
    prepared = prepare(data, PLAIN, TokenizerConfig(vocab_size=300))
    assert prepared is not None
    assert sum(last - first for _, first, last in prepared.members) == 4
