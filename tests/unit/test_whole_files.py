"""Files are whole or not there, and one process at a time is in a block of a lock."""

from __future__ import annotations

import contextlib
import errno
import os
import threading
from pathlib import Path

import pytest

from seq2seq.files import (
    atomic_folder,
    atomic_write,
    lock,
    remove_leftovers,
    replace_text,
    restored,
)


def test_a_file_takes_its_place_when_it_is_whole(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")
    with atomic_write(path) as file:
        file.write("né".encode())
        assert path.read_text() == "old"
    assert path.read_text(encoding="utf-8") == "né"
    assert [each.name for each in tmp_path.iterdir()] == ["a.txt"]


def test_processes_of_several_machines_write_to_different_names(tmp_path):
    with atomic_write(tmp_path / "a") as one, atomic_write(tmp_path / "a") as other:
        assert one.name != other.name


def test_what_a_killed_process_left_is_removed(tmp_path):
    killed = atomic_write(tmp_path / "a.json")
    killed.__enter__()
    assert len(list(tmp_path.iterdir())) == 1
    remove_leftovers(tmp_path)
    assert list(tmp_path.iterdir()) == []


class Killed(BaseException):
    """As if the process was gone."""


def write_folder(path: Path, text: str) -> None:
    with atomic_folder(path) as partial:
        (partial / "file").write_text(text)


@pytest.mark.parametrize("at", range(3))
def test_a_folder_is_there_whenever_its_replacing_is_killed(tmp_path, monkeypatch, at):
    """Before each step of the exchange: nothing that tidies up is run afterwards."""
    path, steps = tmp_path / "bundle", iter(range(9))
    write_folder(path, "old")
    rename = Path.rename

    def kill(self, target):
        if next(steps) == at:
            raise Killed
        return rename(self, target)

    with monkeypatch.context() as patch, contextlib.suppress(Killed):
        patch.setattr(Path, "rename", kill)
        patch.setattr("seq2seq.files._remove", lambda _: None)
        write_folder(path, "new")
    expected = "old" if at < 2 else "new"
    assert (restored(path) / "file").read_text() == expected
    write_folder(path, "newer")
    remove_leftovers(tmp_path)
    assert (path / "file").read_text() == "newer"
    assert [each.name for each in tmp_path.iterdir()] == ["bundle"]


def test_a_reader_may_put_the_old_folder_back_while_it_is_replaced(tmp_path, monkeypatch):
    path, rename = tmp_path / "bundle", Path.rename
    write_folder(path, "old")

    def read_between(self, target):
        moved = rename(self, target)
        if self == path:
            monkeypatch.setattr(Path, "rename", rename)  # only the first time
            restored(path)
        return moved

    monkeypatch.setattr(Path, "rename", read_between)
    write_folder(path, "new")
    assert (path / "file").read_text() == "new"
    assert [each.name for each in tmp_path.iterdir()] == ["bundle"]


def test_a_link_to_a_folder_is_replaced_and_what_it_leads_to_stays(tmp_path):
    write_folder(tmp_path / "other", "other")
    (tmp_path / "bundle").symlink_to(tmp_path / "other")
    for text in ("new", "newer"):
        write_folder(tmp_path / "bundle", text)
        assert (tmp_path / "bundle" / "file").read_text() == text
    assert sorted(each.name for each in tmp_path.iterdir()) == ["bundle", "other"]
    assert (tmp_path / "other" / "file").read_text() == "other"


def test_a_folder_stays_if_the_disk_fails(tmp_path, monkeypatch):
    path = tmp_path / "bundle"
    write_folder(path, "old")
    rename = Path.rename

    def fail(self, target):
        if self.name.endswith(".partial"):
            raise OSError(28, "No space left on device")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", fail)
    with pytest.raises(OSError, match="No space"):
        write_folder(path, "new")
    assert (path / "file").read_text() == "old"
    assert [each.name for each in tmp_path.iterdir()] == ["bundle"]


@pytest.mark.parametrize("moment", ["write", "fsync", "replace"])
def test_what_was_there_stays_if_writing_fails(tmp_path, monkeypatch, moment):
    path = tmp_path / "a.txt"
    path.write_text("old")

    def fail(*_):
        raise OSError(28, "No space left on device")

    if moment != "write":
        monkeypatch.setattr(os, moment, fail)

    def write():
        with atomic_write(path) as file:
            file.write(b"new")
            if moment == "write":
                fail()

    with pytest.raises(OSError, match="No space"):
        write()
    assert path.read_text() == "old"
    assert [each.name for each in tmp_path.iterdir()] == ["a.txt"]


def test_a_library_may_write_to_the_name(tmp_path):
    with atomic_write(tmp_path / "a.txt") as file, open(file.name, "w") as again:
        again.write("new")
    assert (tmp_path / "a.txt").read_text() == "new"


def test_one_at_a_time(tmp_path):
    inside, waited = threading.Event(), threading.Event()
    order: list[str] = []

    def second():
        inside.wait()
        with lock(tmp_path / ".lock", waited.set):
            order.append("second")

    thread = threading.Thread(target=second)
    thread.start()
    with lock(tmp_path / ".lock", lambda: pytest.fail("nobody was there")):
        inside.set()
        assert waited.wait(10)
        replace_text(tmp_path / "a", "")
        order.append("first")
    thread.join()
    assert order == ["first", "second"]


def test_who_has_no_patience_is_told_that_another_is_there(tmp_path):
    def refuse() -> None:
        raise RuntimeError("another is there")

    again = lock(tmp_path / ".lock", refuse)
    with lock(tmp_path / ".lock"), pytest.raises(RuntimeError, match="another"), again:
        pytest.fail("two at once")


def test_a_file_system_without_locks_is_warned_of(tmp_path, monkeypatch, caplog):
    def refused(*_: object, **__: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("filelock.FileLock.acquire", refused)
    with lock(tmp_path / ".lock"):
        pass
    assert "No locks available. See that no other process works here" in caplog.text
