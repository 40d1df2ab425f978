"""Files that are whole or not there: however their making is stopped, it can be gone on with."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
from itertools import islice

import pytest

from seq2seq.cli.output_file import PartialFile
from seq2seq.cli.records import Record
from seq2seq.errors import RunError

MADE_WITH = {"model": "abc", "beam": 5}
INPUT = [f"line {number}" for number in range(20)]


def records(lines=INPUT):
    return iter([Record(line, line) for line in lines])


def answer(lines):
    return [line.upper() for line in lines]


def write_blocks(partial, rest, blocks):
    """Translate so many blocks of three records."""
    for _ in range(blocks):
        block = list(islice(rest, 3))
        partial.write(block, answer(record.line for record in block))


def make(output, blocks, then):
    """Begin a file with so many blocks, and do something then; one more block if that returns."""
    with PartialFile(output, MADE_WITH) as partial:
        rest = partial.skip_translated(records())
        write_blocks(partial, rest, blocks)
        then(partial)
        write_blocks(partial, rest, 1)


def begin(output, blocks=2, error=KeyboardInterrupt):
    """A file of so many blocks, whose making ended with an error."""

    def stop(_):
        raise error

    with pytest.raises(error):
        make(output, blocks, stop)


def go_on(output, lines=INPUT, made_with=MADE_WITH):
    with PartialFile(output, made_with, resume=True) as partial:
        rest = partial.skip_translated(records(lines))
        write_blocks(partial, rest, 7)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_file_is_there_when_it_is_whole(tmp_path):
    output = tmp_path / "b.txt"
    with PartialFile(output, MADE_WITH) as partial:
        write_blocks(partial, partial.skip_translated(records()), 7)
        assert names(tmp_path) == ["b.txt.partial", "b.txt.partial.json", "b.txt.partial.lock"]
    assert names(tmp_path) == ["b.txt"]
    assert output.read_text().splitlines() == answer(INPUT)


def test_an_interrupt_leaves_whole_blocks_and_says_how_to_go_on(tmp_path, capsys):
    begin(tmp_path / "b.txt")
    said = capsys.readouterr().err
    assert "b.txt.partial holds the translation of 6 lines: continue with" in said
    assert (tmp_path / "b.txt.partial").read_text().splitlines() == answer(INPUT[:6])


def test_nothing_is_left_where_nothing_was_done(tmp_path):
    begin(tmp_path / "b.txt", blocks=0)
    assert names(tmp_path) == []


@pytest.mark.parametrize("ending", ["", ".gz", ".zst"])
@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_what_goes_on_is_what_was_never_stopped(tmp_path, error, ending):
    output = tmp_path / f"b.txt{ending}"
    begin(output, 3, error)
    go_on(output)
    expected = "".join(f"{line}\n" for line in answer(INPUT)).encode()
    tools = {"": ["cat"], ".gz": ["gzip", "-dc"], ".zst": ["zstd", "-dc"]}
    try:
        found = subprocess.run([*tools[ending], output], capture_output=True, check=True).stdout
    except FileNotFoundError:
        pytest.skip(f"{tools[ending][0]} is not installed")
    assert found == expected
    assert names(tmp_path) == [output.name]


class Killed(BaseException):
    """As if the process was gone: nothing that tidies up is run after it."""


class Half:
    """A file that is killed when a part of what it should write is written."""

    def __init__(self, file):
        self._file, self.fileno, self.close = file, file.fileno, file.close

    def write(self, data):
        self._file.write(data[:5])
        raise Killed


@pytest.mark.parametrize("where", ["write", "fsync", "replace"])
@pytest.mark.parametrize("after", [1, 2, 3])
def test_a_kill_at_any_moment_can_be_gone_on_from(tmp_path, monkeypatch, where, after):
    def kill(*_):
        raise Killed

    def kill_the_next_block(partial):
        if where == "write":
            partial._file = Half(partial._file)
        else:
            monkeypatch.setattr(os, where, kill)

    output = tmp_path / "b.txt"
    monkeypatch.setattr(PartialFile, "__exit__", lambda self, *_: self._held.close())
    with pytest.raises(Killed):
        make(output, after, kill_the_next_block)
    monkeypatch.undo()
    go_on(output)
    assert output.read_text().splitlines() == answer(INPUT)


def test_going_on_with_nothing_is_beginning(tmp_path):
    go_on(tmp_path / "b.txt")
    assert (tmp_path / "b.txt").read_text().splitlines() == answer(INPUT)


def test_later_lines_may_change_and_earlier_ones_may_not(tmp_path):
    output = tmp_path / "b.txt"
    begin(output)
    changed = [*INPUT[:6], "mended", "added", *INPUT[7:]]
    for earlier in (["other", *INPUT[1:]], INPUT[:5]):
        with pytest.raises(RunError, match=r"of 6 lines, and this input begins with other lines"):
            go_on(output, earlier)
    go_on(output, changed)
    assert output.read_text().splitlines() == answer(changed)


def test_another_model_or_setting_is_refused_by_name(tmp_path):
    begin(tmp_path / "b.txt")
    with pytest.raises(RunError, match=r"other settings \(beam was 5 and is 4; model was abc and"):
        go_on(tmp_path / "b.txt", made_with={"model": "xyz", "beam": 4})
    with pytest.raises(RunError, match=r"\(sample was None and is True\)"):
        go_on(tmp_path / "b.txt", made_with={**MADE_WITH, "sample": True})


@pytest.mark.parametrize("damage", ["missing", "no json", "no field", "short"])
def test_a_damaged_file_is_refused(tmp_path, damage):
    begin(tmp_path / "b.txt")
    description = tmp_path / "b.txt.partial.json"
    if damage == "missing":
        description.unlink()
    elif damage == "short":
        (tmp_path / "b.txt.partial").write_text("x")
    else:
        fields = json.loads(description.read_text())
        del fields["bytes"]
        description.write_text(json.dumps(fields) if damage == "no field" else "{")
    with pytest.raises(RunError, match=r"cannot be resumed.*Start again with --force"):
        go_on(tmp_path / "b.txt")


def test_a_full_disk_is_reported_and_can_be_gone_on_from(tmp_path, monkeypatch):
    output = tmp_path / "b.txt.gz"

    def full(descriptor):
        raise OSError(28, "No space left on device")

    with pytest.raises(RunError, match=r"cannot write .*No space left.*and --resume"):
        make(output, 1, lambda _: monkeypatch.setattr(os, "fsync", full))
    monkeypatch.undo()
    go_on(output)
    assert gzip.decompress(output.read_bytes()).decode().splitlines() == answer(INPUT)


def test_a_file_that_is_being_written_is_left_alone(tmp_path):
    output = tmp_path / "b.txt"

    def try_too(_):
        for resume in (False, True):
            with pytest.raises(RunError, match=r"another translate is writing .*b\.txt\.partial"):
                PartialFile(output, MADE_WITH, resume)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        make(output, 2, try_too)
    assert (tmp_path / "b.txt.partial").read_text().splitlines() == answer(INPUT[:6])
    go_on(output)
    assert output.read_text().splitlines() == answer(INPUT)


def test_a_refused_file_is_not_locked_for_the_next(tmp_path):
    output = tmp_path / "b.txt"
    begin(output)
    with pytest.raises(RunError, match="started with other settings"):
        go_on(output, made_with={})
    go_on(output)


@pytest.mark.parametrize("when", ["begin", "end"])
def test_a_full_disk_is_reported_at_both_ends(tmp_path, monkeypatch, when):
    def full(*_):
        raise OSError(28, "No space left on device")

    def write():
        with PartialFile(tmp_path / "b.txt", MADE_WITH) as partial:
            write_blocks(partial, partial.skip_translated(records()), 7)
            monkeypatch.setattr(os, "replace", full)

    if when == "begin":
        monkeypatch.setattr(os, "replace", full)
    with pytest.raises(RunError, match=r"cannot write .*No space left"):
        write()
    assert not (tmp_path / "b.txt").exists()
