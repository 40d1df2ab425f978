"""Lines of text as files and pipes hold them, against `bytes.split` and real tools."""

from __future__ import annotations

import gzip
import os
import subprocess
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seq2seq import lines as module
from seq2seq.errors import DataError
from seq2seq.lines import ArrivingLines, decoded, lines_of, packer

TEXT = "été\n\n  deux \u2028 trois\x0b\x85\r\nquatre"
PARTS = ["été", "", "  deux \u2028 trois\x0b\x85", "quatre"]


@pytest.fixture
def pipe():
    """A pipe: where to read, and a file object to write to."""
    read, write = os.pipe()
    with open(write, "wb", buffering=0) as writer:
        yield read, writer
    os.close(read)


@pytest.mark.parametrize("ending", ["", ".gz", ".zst"])
def test_files_are_read_packed_or_not_and_only_a_line_feed_ends_a_line(tmp_path, ending):
    path = tmp_path / f"a.txt{ending}"
    path.write_bytes(packer(path)(("\ufeff" + TEXT).encode()))
    assert list(lines_of(path)) == PARTS


@pytest.mark.parametrize(("ending", "tool"), [(".gz", "gzip"), (".zst", "zstd")])
def test_pieces_that_were_packed_one_by_one_are_one_file_for_other_programs(tmp_path, ending, tool):
    path = tmp_path / f"a{ending}"
    path.write_bytes(packer(path)(b"one\n") + packer(path)(b"") + packer(path)(b"two\n"))
    try:
        found = subprocess.run([tool, "-dc", path], capture_output=True, check=True).stdout
    except FileNotFoundError:
        pytest.skip(f"{tool} is not installed")
    assert found == b"one\ntwo\n"


def test_faults_name_the_file_and_the_line(tmp_path):
    bad = tmp_path / "bad.txt"
    bad.write_bytes(b"one\ntw\xffo\n")
    with pytest.raises(DataError, match=r"bad\.txt, line 2: not UTF-8 .* at byte 2 of the line"):
        list(lines_of(bad))
    cut = tmp_path / "cut.gz"
    cut.write_bytes(gzip.compress(b"one\n" * 1000)[:-9])
    with pytest.raises(DataError, match=r"cannot read \S*cut\.gz after line \d+: "):
        list(lines_of(cut))
    with pytest.raises(DataError, match=r"p, line 1: this looks like UTF-16"):
        list(decoded(["one\n".encode("utf-16")], "p"))


@settings(deadline=None, database=None, max_examples=30)
@given(st.lists(st.binary(max_size=9) | st.just(b"\n"), max_size=12))
def test_lines_of_a_pipe_are_those_of_a_split_however_it_is_cut(chunks):
    read, write = os.pipe()
    for chunk in chunks:
        os.write(write, chunk)
    os.close(write)
    found = list(ArrivingLines(read, "p"))
    os.close(read)
    parts = b"".join(chunks).split(b"\n")
    assert found == (parts if parts[-1] else parts[:-1])


def test_a_pipe_pauses_where_the_next_line_is_not_there_yet(pipe):
    read, writer = pipe
    arriving = ArrivingLines(read, "p")
    writer.write(b"one\ntwo\nthr")
    lines = iter(arriving)
    assert (next(lines), arriving.pauses(), next(lines)) == (b"one", False, b"two")
    assert arriving.pauses()  # half a line is none
    writer.write(b"ee\n")
    assert (next(lines), arriving.pauses()) == (b"three", True)
    writer.close()
    assert list(lines) == []


def test_a_line_that_is_longer_than_a_pipe_arrives_whole(pipe):
    read, writer = pipe
    long = b"x" * 300_000  # a pipe holds 65,536

    def write() -> None:
        with writer:
            for start in range(0, len(long), 5000):
                writer.write(long[start : start + 5000])

    thread = threading.Thread(target=write)
    thread.start()
    assert list(ArrivingLines(read, "p")) == [long]
    thread.join()


def test_what_has_no_lines_is_given_up_before_memory_is(monkeypatch):
    monkeypatch.setattr(module, "LONGEST", 1 << 20)
    with (
        open("/dev/zero", "rb") as endless,
        pytest.raises(DataError, match=r"p has a line of more than 1,048,576 bytes"),
    ):
        next(iter(ArrivingLines(endless.fileno(), "p")))


@pytest.mark.parametrize("ending", ["", ".gz", ".zst"])
def test_a_line_of_a_file_is_given_up_likewise(tmp_path, monkeypatch, ending):
    monkeypatch.setattr(module, "LONGEST", 1 << 10)
    path = tmp_path / f"a{ending}"
    path.write_bytes(packer(path)(b"x" * 1023 + b"\n" + b"y" * 2000 + b"\n" + b"z"))
    lines = lines_of(path)
    assert next(lines) == "x" * 1023
    with pytest.raises(DataError, match=rf"a{ending} has a line of more than 1,024 bytes"):
        next(lines)


def test_a_pipe_that_does_not_wait_is_waited_for(pipe):
    read, writer = pipe
    os.set_blocking(read, False)
    threading.Timer(0.1, writer.write, [b"one\n"]).start()
    assert next(iter(ArrivingLines(read, "pipe"))) == b"one"


def test_what_is_for_writing_only_is_refused(tmp_path):
    with (tmp_path / "a").open("wb") as file, pytest.raises(DataError, match="cannot read a: "):
        next(iter(ArrivingLines(file.fileno(), "a")))
