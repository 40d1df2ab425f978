"""Corpus files are found and read as they were written, or refused with words that help."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seq2seq.data.corpus import Pair, find_files, read_pairs
from seq2seq.errors import DataError

COLUMNS = ("en", "fr")
PAIRS = [("Hello.", "Bonjour."), ("", "vide"), ("two words", "« déjà vu »"), ("x", "")]


def zstd(data: bytes) -> bytes:
    return pa.compress(data, "zstd", asbytes=True)


PACKERS = {".gz": gzip.compress, ".zst": zstd}


def write_parquet(path: Path, pairs: list[Pair]) -> list[Path]:
    sides = {
        name: pa.array([pair[i] for pair in pairs], pa.string()) for i, name in enumerate(COLUMNS)
    }
    pq.write_table(pa.table({"id": pa.array(range(len(pairs))), **sides}), path)
    return [path]


def _write(path: Path, text: str) -> list[Path]:
    data = text.encode("utf-8")
    path.write_bytes(PACKERS.get(path.suffix, bytes)(data))
    return [path]


def write_tsv(path: Path, pairs: list[Pair]) -> list[Path]:
    return _write(path, "id\tfr\ten\n" + "".join(f"7\t{fr}\t{en}\n" for en, fr in pairs))


def write_bare_tsv(path: Path, pairs: list[Pair]) -> list[Path]:
    return _write(path, "".join(f"{fr}\t7\t{en}\n" for en, fr in pairs))


def write_jsonl(path: Path, pairs: list[Pair]) -> list[Path]:
    return _write(path, "".join(json.dumps({"fr": fr, "en": en}) + "\n" for en, fr in pairs))


def write_nested(path: Path, pairs: list[Pair]) -> list[Path]:
    rows = [{"id": 1, "translation": {"en": en, "fr": fr}} for en, fr in pairs]
    return _write(path, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))


def write_nested_parquet(path: Path, pairs: list[Pair]) -> list[Path]:
    rows = pa.array([{"fr": fr, "en": en} for en, fr in pairs], NESTED)
    pq.write_table(pa.table({"id": list(range(len(pairs))), "translation": rows}), path)
    return [path]


NESTED = pa.struct({"fr": pa.string(), "en": pa.string()})


def write_text(path: Path, pairs: list[Pair]) -> list[Path]:
    ending = path.suffix if path.suffix in PACKERS else ""
    stem = path.name.removesuffix(ending)
    files = [path.with_name(f"{stem}.{column}{ending}") for column in COLUMNS]
    for side, file in enumerate(files):
        _write(file, "".join(pair[side] + "\n" for pair in pairs))
    return files


FORMATS = {
    "parquet": (write_parquet, "a.parquet", COLUMNS),
    "nested parquet": (write_nested_parquet, "a.parquet", COLUMNS),
    "json": (write_jsonl, "a.json", COLUMNS),
}
for packed in ("", *PACKERS):
    FORMATS |= {
        f"tsv{packed}": (write_tsv, f"a.tsv{packed}", COLUMNS),
        f"bare tsv{packed}": (write_bare_tsv, f"a.tsv{packed}", ("2", "0")),
        f"jsonl{packed}": (write_jsonl, f"a.jsonl{packed}", COLUMNS),
        f"nested jsonl{packed}": (write_nested, f"a.jsonl{packed}", COLUMNS),
        f"text{packed}": (write_text, f"a{packed}", COLUMNS),
    }


def read(files: list[Path], columns: tuple[str, str] = COLUMNS) -> list[Pair]:
    return list(read_pairs(files, columns))


def found(spec: object, folder: Path, columns: tuple[str, str] = COLUMNS) -> list[str]:
    return [path.name for path in find_files(spec, str(folder), columns)]


def corpus(spec: object, folder: Path, columns: tuple[str, str] = COLUMNS) -> list[Pair]:
    return read(find_files(spec, str(folder), columns), columns)


# Line breaks end a line, tabs a column, a mark at the very start of a file is dropped, and a first
# line full of NULs is not UTF-8.
LINE = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0\n\t\ufeff"), max_size=9
)
ANY = st.text(st.characters(exclude_categories=["Cs"]), max_size=9)


@pytest.mark.parametrize("name", FORMATS)
@settings(max_examples=25, deadline=None, database=None)
@given(data=st.data())
def test_what_was_written_is_read_back(name, data, tmp_path_factory):
    write, file, columns = FORMATS[name]
    text = ANY if "json" in name or "parquet" in name else LINE
    pairs = data.draw(st.lists(st.tuples(text, text), max_size=5))
    folder = tmp_path_factory.getbasetemp() / name.replace(" ", "-")
    folder.mkdir(exist_ok=True)
    files = write(folder / file, pairs)
    assert read(files, columns) == [(en.strip(), fr.strip()) for en, fr in pairs]


@pytest.mark.parametrize("name", FORMATS)
def test_a_stem_finds_every_format(name, tmp_path):
    write, file, columns = FORMATS[name]
    write(tmp_path / file, PAIRS)
    assert corpus("a", tmp_path, columns) == PAIRS


def test_shards_of_a_stem_are_read_in_order(tmp_path):
    for shard in (2, 0, 1):
        write_parquet(tmp_path / f"train-{shard:05}-of-00003.parquet", [(f"e{shard}", f"f{shard}")])
    assert corpus("train", tmp_path) == [("e0", "f0"), ("e1", "f1"), ("e2", "f2")]


def test_a_glob_is_read_in_sorted_order(tmp_path):
    for name in "cab":
        write_tsv(tmp_path / f"{name}.tsv", [(name, name.upper())])
    write_tsv(tmp_path / "other.txt", [("no", "NO")])
    assert corpus("*.tsv", tmp_path) == [("a", "A"), ("b", "B"), ("c", "C")]


def test_a_list_keeps_its_own_order_and_mixes_formats(tmp_path):
    write_tsv(tmp_path / "z.tsv", [("1", "un")])
    write_jsonl(tmp_path / "a.jsonl.gz", [("2", "deux")])
    write_parquet(tmp_path / "m.parquet", [("3", "trois")])
    assert corpus(["z.tsv", "a", "m.parquet"], tmp_path) == [
        ("1", "un"),
        ("2", "deux"),
        ("3", "trois"),
    ]


def test_patterns_of_plain_text_are_paired_in_sorted_order(tmp_path):
    for shard in "ba":
        write_text(tmp_path / f"part-{shard}.gz", [(shard, shard.upper())])
    spec = ["part-*.en.gz", "part-*.fr.gz"]
    assert corpus(spec, tmp_path) == corpus("part", tmp_path) == [("a", "A"), ("b", "B")]
    write_text(tmp_path / "part-c.gz", [("c", "C")])[1].unlink()
    for unpaired in (spec, "part"):
        with pytest.raises(DataError, match=r"3 source but 2 target file\(s\).*part-c\.en\.gz"):
            find_files(unpaired, str(tmp_path), COLUMNS)


@pytest.mark.parametrize("spec", [["part-*.en", "part-*.fr"], "part"])
def test_shards_of_plain_text_with_other_names_are_not_paired(spec, tmp_path):
    for name in ("part-1.en", "part-2.en", "part-1.fr", "part-3.fr"):
        _write(tmp_path / name, "text\n")
    with pytest.raises(DataError, match=r"pairs part-2\.en with part-3\.fr, .*write what differs"):
        find_files(spec, str(tmp_path), COLUMNS)
    (tmp_path / "part-3.fr").rename(tmp_path / "part-2.fr")
    assert found(spec, tmp_path) == ["part-1.en", "part-1.fr", "part-2.en", "part-2.fr"]


def test_the_language_may_be_in_what_a_pattern_matches(tmp_path):
    for side in COLUMNS:
        (tmp_path / f"[{side}]").mkdir()
        for name in ("a", "b"):
            _write(tmp_path / f"[{side}]" / f"{name}_{side}.txt", "text\n")
    names = ["a_en.txt", "a_fr.txt", "b_en.txt", "b_fr.txt"]
    assert found(["[[]en]/*", "[[]fr]/*"], tmp_path) == names


def test_two_stems_of_plain_text_are_read_one_after_the_other(tmp_path):
    write_text(tmp_path / "a", [("1", "un")])
    write_text(tmp_path / "b", [("2", "deux")])
    assert corpus(["a", "b"], tmp_path) == [("1", "un"), ("2", "deux")]


@pytest.mark.parametrize("packed", ["", ".gz", ".zst"])
def test_shards_of_any_packing_are_found(packed, tmp_path):
    for shard in "10":
        write_tsv(tmp_path / f"train-{shard}.tsv{packed}", [(shard, shard)])
    assert corpus("train", tmp_path) == [("0", "0"), ("1", "1")]


def test_a_list_of_two_plain_files_is_source_then_target(tmp_path):
    _write(tmp_path / "english.txt", "one\ntwo\n")
    _write(tmp_path / "french.txt", "un\ndeux\n")
    assert corpus(["english.txt", "french.txt"], tmp_path) == [("one", "un"), ("two", "deux")]


def test_a_full_name_wins_over_a_stem(tmp_path):
    write_tsv(tmp_path / "train.tsv", PAIRS)
    write_parquet(tmp_path / "train.parquet", PAIRS)
    assert found("train.tsv", tmp_path) == ["train.tsv"]


def test_an_absolute_path_needs_no_folder(tmp_path):
    [file] = write_tsv(tmp_path / "a.tsv", PAIRS)
    assert find_files(str(file), None, COLUMNS) == [file]


@pytest.mark.parametrize("end", ["\r\n", "\n"])
@pytest.mark.parametrize("mark", ["\ufeff", ""])
def test_byte_order_mark_and_windows_line_ends_do_not_matter(mark, end, tmp_path):
    _write(tmp_path / "a.tsv", mark + end.join(["en\tfr", "one\tun", "two\tdeux"]) + end)
    _write(tmp_path / "b.jsonl", mark + '{"en": "one", "fr": "un"}' + end)
    _write(tmp_path / "c.en", mark + f"one{end}two")
    _write(tmp_path / "c.fr", f"un{end}deux{end}")
    expected = [("one", "un"), ("two", "deux")]
    assert corpus("a", tmp_path) == corpus("c", tmp_path) == expected
    assert corpus("b", tmp_path) == expected[:1]


def test_line_separators_inside_a_sentence_do_not_end_it(tmp_path):
    odd = "a\u2028b\x0bc\x85d\re"
    assert read(write_text(tmp_path / "a", [(odd, "x"), ("y", odd)])) == [(odd, "x"), ("y", odd)]


def test_a_line_may_be_a_megabyte_long_and_hold_a_nul(tmp_path):
    pairs = [("first", "premier"), ("x" * 1_000_000, "a\0b"), ("y", "z")]
    assert corpus("a", write_text(tmp_path / "a.zst", pairs)[0].parent) == pairs


def test_a_packed_file_may_have_several_parts(tmp_path):
    (tmp_path / "a.tsv.zst").write_bytes(zstd(b"en\tfr\none\t") + zstd(b"un\ntwo\tdeux\n"))
    assert corpus("a", tmp_path) == [("one", "un"), ("two", "deux")]


def test_a_missing_translation_is_two_empty_texts(tmp_path):
    rows = pa.array([{"en": "a", "fr": None}, None, {"en": "c", "fr": "d"}], NESTED)
    pq.write_table(pa.table({"translation": rows}), tmp_path / "a.parquet")
    assert corpus("a", tmp_path) == [("a", ""), ("", ""), ("c", "d")]


@pytest.mark.parametrize("kind", [pa.large_string(), pa.dictionary(pa.int32(), pa.string())])
def test_every_way_to_store_text_in_parquet_is_read(kind, tmp_path):
    table = pa.table({"en": pa.array(["a", "b", "a"]).cast(kind), "fr": pa.nulls(3)})
    pq.write_table(table, tmp_path / "a.parquet")
    assert corpus("a", tmp_path) == [("a", ""), ("b", ""), ("a", "")]


def test_missing_texts_of_a_table_are_empty(tmp_path):
    table = pa.table({"en": pa.array(["a", None]), "fr": pa.array([None, "b"], pa.string())})
    pq.write_table(table, tmp_path / "a.parquet")
    assert read([tmp_path / "a.parquet"]) == [("a", ""), ("", "b")]


# Errors: what, where, and what to do


def test_a_missing_file_names_what_is_there_instead(tmp_path):
    write_tsv(tmp_path / "train.tsv", PAIRS)
    with pytest.raises(DataError, match=r"no corpus file \S*trian .* holds train\.tsv"):
        find_files("trian", str(tmp_path), COLUMNS)


def test_of_many_files_only_some_are_named_and_the_rest_counted(tmp_path):
    for number in range(11):
        (tmp_path / f"f{number:02}").touch()
    with pytest.raises(DataError, match=r"holds f00, f01, .*f07 and 3 more"):
        find_files("train", str(tmp_path), COLUMNS)


def test_a_missing_file_in_an_empty_folder_says_so(tmp_path):
    with pytest.raises(DataError, match=r"train\.parquet.*\.en \+ \.fr.*holds nothing"):
        find_files("train", str(tmp_path), COLUMNS)


def test_half_of_a_plain_text_pair_is_not_enough(tmp_path):
    _write(tmp_path / "train.en", "a\n")
    with pytest.raises(DataError, match=r"no corpus file \S*train .* holds train\.en"):
        find_files("train", str(tmp_path), COLUMNS)


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(DataError, match=r"data\.path=\S*nowhere is not a folder"):
        find_files("train", str(tmp_path / "nowhere"), COLUMNS)
    with pytest.raises(DataError, match=r"the folder \S*nowhere does not exist"):
        find_files("nowhere/train", str(tmp_path), COLUMNS)


def test_a_pattern_without_match_is_named(tmp_path):
    with pytest.raises(DataError, match=r"no file matches \S*\*\.tsv"):
        find_files("*.tsv", str(tmp_path), COLUMNS)


@pytest.mark.parametrize("spec", ["one.txt", ["one.txt", "a.tsv"], ["one.txt"] * 3])
def test_plain_text_alone_is_refused_with_an_example(spec, tmp_path):
    _write(tmp_path / "one.txt", "a\n")
    write_tsv(tmp_path / "a.tsv", PAIRS)
    with pytest.raises(DataError, match=r"two files, source then target.*\[train\.en,train\.fr\]"):
        find_files(spec, str(tmp_path), COLUMNS)


@pytest.mark.parametrize("name", ["parquet", "nested parquet", "tsv", "jsonl", "nested jsonl"])
def test_a_wrong_column_lists_those_found(name, tmp_path):
    write, file, _ = FORMATS[name]
    files = write(tmp_path / file, PAIRS)
    with pytest.raises(
        DataError, match=r"no column 'de'; it has: .*'fr'.*data\.source_column"
    ) as e:
        read(files, ("de", "fr"))
    assert str(files[0]) in str(e.value)
    assert "'en'" in str(e.value)


@pytest.mark.parametrize(("en", "fr"), [(3, 1), (1, 3), (0, 2)])
def test_line_counts_that_differ_are_both_told(en, fr, tmp_path):
    _write(tmp_path / "a.en", "x\n" * en)
    _write(tmp_path / "a.fr", "y\n" * fr)
    with pytest.raises(DataError, match=rf"a\.en has {en} lines .*a\.fr has {fr}:"):
        corpus("a", tmp_path)


@pytest.mark.parametrize("compress", [bytes, gzip.compress, zstd])
def test_text_that_is_not_utf8_is_refused_with_file_and_line(compress, tmp_path):
    file = tmp_path / {bytes: "a.tsv", gzip.compress: "a.tsv.gz", zstd: "a.tsv.zst"}[compress]
    file.write_bytes(compress("en\tfr\na\tb\nsummer\tété\n".encode("latin1")))
    with pytest.raises(DataError, match=rf"{file.name}, line 3: not UTF-8 text .*iconv"):
        read([file])


@pytest.mark.parametrize("coding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_utf16_is_recognised_and_the_remedy_named(coding, tmp_path):
    (tmp_path / "a.tsv").write_bytes("en\tfr\nsummer\tété\n".encode(coding))
    with pytest.raises(DataError, match=r"a\.tsv, line 1: .*UTF-16.*iconv -f utf-16 -t utf-8"):
        corpus("a", tmp_path)


@pytest.mark.parametrize(("packed", "fault"), [(".gz", "ended"), (".zst", "Truncated")])
def test_a_truncated_packed_file_is_named(packed, fault, tmp_path):
    pairs = [(f"line {i}", str(i * i)) for i in range(500)]
    [file] = write_tsv(tmp_path / f"a.tsv{packed}", pairs)
    file.write_bytes(file.read_bytes()[:-40])
    said = rf"cannot read \S*{file.name}( after line \d+)?: .*{fault}"
    with pytest.raises(DataError, match=said):
        read([file])


@pytest.mark.parametrize(
    ("packed", "fault"), [(".gz", "[Nn]ot a gzipped file"), (".zst", "ZSTD decompress failed")]
)
def test_a_file_that_is_only_called_packed_is_named(packed, fault, tmp_path):
    file = tmp_path / f"a.tsv{packed}"
    file.write_text("en\tfr\n")
    with pytest.raises(DataError, match=rf"cannot read \S*{file.name}.*{fault}"):
        read([file])


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ('{"en": "a", "fr"', "not JSON"),
        ('["a", "b"]', "not an object with named texts"),
        ('{"en": "a", "fr": 3}', "'fr' is not a text: 3"),
        ('{"en": "a", "fr": 0}', "'fr' is not a text: 0"),
    ],
)
def test_a_broken_json_line_is_named(line, fault, tmp_path):
    _write(tmp_path / "a.jsonl", '{"en": "a", "fr": "b"}\n\n' + line + "\n")
    with pytest.raises(DataError, match=rf"a\.jsonl, line 3: {fault}"):
        corpus("a", tmp_path)


@pytest.mark.parametrize("keep", [0, 100, None])
def test_a_file_that_is_only_called_parquet_is_named(keep, tmp_path):
    [file] = write_parquet(tmp_path / "a.parquet", PAIRS)
    file.write_bytes(b"en\tfr\n" if keep is None else file.read_bytes()[:keep])
    with pytest.raises(DataError, match=r"a\.parquet is not a readable parquet file"):
        read([file])


def test_a_missing_json_text_is_empty(tmp_path):
    _write(tmp_path / "a.jsonl", '{"en": "a", "fr": null}\n{"en": null, "fr": "b"}')
    assert corpus("a", tmp_path) == [("a", ""), ("", "b")]


def test_a_tab_in_a_text_is_named(tmp_path):
    _write(tmp_path / "a.tsv", "en\tfr\tid\na\tb\t1\na\tof c\tb\t2\n")
    with pytest.raises(DataError, match=r"a\.tsv, line 3: 4 columns, but line 1 names 3\. .*tab"):
        corpus("a", tmp_path)


def test_a_file_of_carriage_returns_is_told_without_its_text(tmp_path):
    _write(tmp_path / "a.tsv", "en\tfr\r" + "a house\tune maison\r" * 900)
    with pytest.raises(DataError, match=r"no column 'fr'; .*end them with line feeds") as error:
        corpus("a", tmp_path)
    assert len(str(error.value)) < 500 + len(str(tmp_path))


def test_a_short_tsv_line_is_named(tmp_path):
    _write(tmp_path / "a.tsv", "id\ten\tfr\n1\ta\tb\n2\tonly\n")
    with pytest.raises(
        DataError, match=r"a\.tsv, line 3: 2 column\(s\) where at least 3 are needed"
    ):
        corpus("a", tmp_path)
    with pytest.raises(DataError, match=r"a\.tsv, line 1: 3 column\(s\) where at least 10"):
        corpus("a", tmp_path, ("0", "9"))


def test_a_column_may_be_called_translation(tmp_path):
    _write(tmp_path / "a.jsonl", '{"sentence": "a", "translation": "b"}\n')
    assert corpus("a", tmp_path, ("sentence", "translation")) == [("a", "b")]


@pytest.mark.parametrize("wrong", [3, 2.5, b"bytes", ["a"], b"half \xed\xa0\x80"])
@pytest.mark.parametrize("nested", [False, True])
def test_a_parquet_cell_that_is_no_text_is_refused(nested, wrong, tmp_path):
    cells = pa.array([None] * 70_000 + [wrong])  # past the first batch
    if isinstance(wrong, bytes) and b"half" in wrong:  # bytes that are only called text
        cells = pa.Array.from_buffers(pa.string(), len(cells), cells.buffers())
    texts = pa.array(["a"] * len(cells))
    table = pa.table({"en": cells, "fr": texts})
    if nested:
        table = pa.table({"translation": pa.StructArray.from_arrays([cells, texts], COLUMNS)})
    pq.write_table(table, tmp_path / "a.parquet")
    fault = rf"a\.parquet: column 'en' holds no text, but {re.escape(repr(wrong))}"
    with pytest.raises(DataError, match=fault):
        corpus("a", tmp_path)


def test_a_translation_column_without_languages_is_refused(tmp_path):
    pq.write_table(pa.table({"translation": ["a"]}), tmp_path / "a.parquet")
    with pytest.raises(DataError, match=r"a\.parquet has no column 'en'"):
        corpus("a", tmp_path)


@pytest.mark.parametrize("name", ["parquet", "tsv", "jsonl"])
def test_a_shard_with_other_columns_is_named(name, tmp_path):
    write, file, _ = FORMATS[name]
    write(tmp_path / file.replace("a.", "a-0."), PAIRS)
    [other] = write(tmp_path / file.replace("a.", "a-1."), PAIRS)
    if name == "parquet":
        pq.write_table(pa.table({"en": ["a"], "de": ["b"]}), other)
    else:
        other.write_text(other.read_text().replace("fr", "de"))
    with pytest.raises(DataError, match=rf"{other.name}.* has no column 'fr'; it has: .*'de'"):
        corpus("a", tmp_path)


@pytest.mark.parametrize("name", FORMATS)
@settings(max_examples=50, deadline=None, database=None)
@given(data=st.binary(max_size=60), packed=st.booleans())
def test_bytes_of_any_kind_are_read_or_refused(name, data, packed, tmp_path_factory):
    _, file, columns = FORMATS[name]
    path = tmp_path_factory.getbasetemp() / file
    path.write_bytes(PACKERS[path.suffix](data) if packed and path.suffix in PACKERS else data)
    files = [path, path] if name.startswith("text") else [path]
    try:
        pairs, message = read(files, columns), path.name
    except DataError as error:
        pairs, message = [], str(error)
    assert path.name in message
    assert all(isinstance(text, str) for pair in pairs for text in pair)


def test_parquet_damaged_inside_is_refused(tmp_path):
    file = tmp_path / "a.parquet"
    pq.write_table(pa.table({"en": ["a"] * 10_000, "fr": ["b"] * 10_000}), file)
    data = bytearray(file.read_bytes())
    data[30:80] = b"\xff" * 50  # the head of a page; the footer is whole
    file.write_bytes(bytes(data))
    with pytest.raises(DataError, match=r"a\.parquet is not a readable parquet file"):
        read([file])


def test_an_empty_list_of_files_is_refused(tmp_path):
    with pytest.raises(DataError):
        corpus([], tmp_path)
