"""Files cut into ranges: read one after the other, they are the file."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seq2seq.data import ranges
from seq2seq.data.sources import FileSource
from seq2seq.errors import DataError

TEXT = st.text("ab é\r\x0c\u2028", max_size=9)
PAIRS = st.lists(st.tuples(TEXT, TEXT), min_size=1, max_size=40)
NAMES, NUMBERS = ("en", "fr"), ("0", "1")


def write_tsv(folder, pairs, end):
    header, blank = ["en\tfr"], [""]
    lines = [*header, *(f"{source}\t{target}" for source, target in pairs), *blank]
    (folder / "c.tsv").write_text("\n".join(lines) + end, encoding="utf-8", newline="")
    return [folder / "c.tsv"], NAMES


def write_bare_tsv(folder, pairs, end):
    lines = [f"{source}\t{target}" for source, target in pairs]
    (folder / "c.tsv").write_text("\n".join(lines) + end, encoding="utf-8", newline="")
    return [folder / "c.tsv"], NUMBERS


def write_jsonl(folder, pairs, end):
    lines = [json.dumps({"en": source, "fr": target}) for source, target in pairs]
    (folder / "c.jsonl").write_text("\n\n".join(lines) + end, encoding="utf-8")
    return [folder / "c.jsonl"], NAMES


def write_text(folder, pairs, end):
    for side, name in enumerate(NAMES):
        lines = "".join(f"{pair[side]}\n" for pair in pairs)
        (folder / f"c.{name}").write_text(lines, encoding="utf-8", newline="")
    return [folder / "c.en", folder / "c.fr"], NAMES


def write_parquet(folder, pairs, end):
    source, target = map(list, zip(*pairs, strict=True))
    table = pa.table({"en": source, "id": range(len(pairs)), "fr": target})
    pyarrow.parquet.write_table(table, folder / "c.parquet", row_group_size=7)
    return [folder / "c.parquet"], NAMES


@pytest.mark.parametrize(
    "write", [write_tsv, write_bare_tsv, write_jsonl, write_text, write_parquet]
)
@settings(max_examples=40, deadline=None, database=None)
@given(
    pairs=PAIRS, end=st.sampled_from(["", "\n"]), rows=st.integers(1, 45),
    size=st.sampled_from([1, 60, 10**6]), chunk=st.integers(1, 99),
)  # fmt: skip
def test_ranges_in_a_row_are_the_file(write, pairs, end, rows, size, chunk, tmp_path_factory):
    files, columns = write(tmp_path_factory.mktemp("ranges"), pairs, end)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ranges, "CHUNK", chunk)
        source = FileSource("member", tuple(files), columns)
        parts = source.cut(rows, size)
    found = [part.rows for part in parts]
    assert [own.first for own in found[1:]] == [own.last for own in found[:-1]]
    assert all(0 < own.last - own.first <= rows for own in found)
    own = [list(part.pairs()) for part in parts]
    assert [pair for some in own for pair in some] == list(source.pairs())
    if size == 1:
        assert max(map(len, own)) <= max(1, rows // ranges.GRAINS)


def test_a_fault_in_a_range_is_told_by_its_line(tmp_path):
    lines = [b"one\tun"] * 30
    lines[22] = b"two\xff\tdeux"
    (tmp_path / "c.tsv").write_bytes(b"\n".join(lines))
    [_, _, broken] = FileSource("member", (tmp_path / "c.tsv",), NUMBERS).cut(10, 10**6)
    with pytest.raises(DataError, match=r"c\.tsv, line 23: not UTF-8"):
        list(broken.pairs())


def test_what_cannot_be_read_alone_has_no_ranges(tmp_path):
    (tmp_path / "c.tsv.gz").write_bytes(b"\x1f\x8b")
    (tmp_path / "c.parquet").write_bytes(b"PAR1 broken PAR1")
    (tmp_path / "c.en").write_text("one\ntwo\n")
    (tmp_path / "c.fr").write_text("un\n")
    for names in (["c.tsv.gz"], ["c.parquet"], ["c.en", "c.fr"]):
        source = FileSource("member", tuple(tmp_path / name for name in names), NAMES)
        assert source.cut(10, 10**6) == []
