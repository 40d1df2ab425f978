"""Fingerprints: the same for the same content wherever it is, another for any change."""

from __future__ import annotations

import hashlib
import os
import time
from concurrent.futures import ThreadPoolExecutor

from seq2seq.data.fingerprint import (
    cache_folder,
    file_fingerprint,
    fingerprint,
    text_fingerprint,
)


def test_order_of_keys_does_not_matter_but_every_value_does():
    assert fingerprint({"a": 1, "b": [2]}) == fingerprint({"b": [2], "a": 1})
    values = [{"a": 1}, {"a": 2}, {"b": 1}, {"a": "1"}, [1], 1, "1", None, {"a": 1, "b": None}]
    assert len({fingerprint(value) for value in values}) == len(values)


def test_texts_are_told_apart_however_they_are_cut():
    assert text_fingerprint(["ab", "c"]) != text_fingerprint(["a", "bc"])
    assert text_fingerprint(["a"]) != text_fingerprint(["a", ""])
    assert text_fingerprint(["\ud800"]) != text_fingerprint(["\ud801"])


def test_a_file_is_known_by_its_content(tmp_path):
    first, second = tmp_path / "a", tmp_path / "sub" / "b"
    second.parent.mkdir()
    first.write_text("one")
    second.write_text("one")
    memory = tmp_path / "memory"
    known = file_fingerprint(first, memory)
    assert file_fingerprint(second, memory) == known
    second.write_text("two")
    assert file_fingerprint(second, memory) != known
    os.utime(first, (1, 1))
    assert file_fingerprint(first, memory) == known


def test_an_unchanged_file_is_read_once(tmp_path):
    file, memory = tmp_path / "a", tmp_path / "memory"
    file.write_text("one")
    os.utime(file, (5, 5))
    known = file_fingerprint(file, memory)
    file.write_text("two")
    os.utime(file, (5, 5))  # the same size and time: taken as unchanged
    assert file_fingerprint(file, memory) == known
    os.utime(file, (6, 6))
    assert file_fingerprint(file, memory) != known


def test_a_memory_that_cannot_be_written_is_done_without(tmp_path):
    (tmp_path / "a").write_text("one")
    (tmp_path / "file").write_text("")
    assert file_fingerprint(tmp_path / "a", tmp_path / "file" / "memory") == file_fingerprint(
        tmp_path / "a", tmp_path / "memory"
    )


def test_the_cache_is_where_it_was_asked_for(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("SEQ2SEQ_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert cache_folder(None) == tmp_path / "home" / ".cache" / "seq2seq"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder(None) == tmp_path / "xdg" / "seq2seq"
    monkeypatch.setenv("SEQ2SEQ_CACHE", str(tmp_path / "own"))
    assert cache_folder(None) == tmp_path / "own"
    assert cache_folder("~/here") == tmp_path / "home" / "here"


def test_processes_that_start_together_read_a_file_once(tmp_path, monkeypatch):
    (tmp_path / "a").write_text("one")
    reads, digest = [], hashlib.file_digest

    def slow(file, kind):
        reads.append(file.name)
        time.sleep(0.3)
        return digest(file, kind)

    monkeypatch.setattr(hashlib, "file_digest", slow)
    with ThreadPoolExecutor(3) as pool:
        jobs = [pool.submit(file_fingerprint, tmp_path / "a", tmp_path / "m") for _ in range(3)]
        assert len({job.result() for job in jobs}) == 1
    assert len(reads) == 1
