"""What a run notes of its making."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import pytest
from example_run import data_report

from seq2seq import provenance
from seq2seq.data.report import Report
from seq2seq.errors import RunError
from seq2seq.provenance import (
    DATA_REPORT,
    NAME,
    LaunchRecord,
    Provenance,
    code_revision,
    note_start,
)


def git(folder, *arguments):
    command = ["git", "-C", folder, "-c", "user.name=x", "-c", "user.email=x@x", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package in a checkout with one commit."""
    folder = tmp_path / "package"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "x")
    monkeypatch.setattr(provenance, "PACKAGE", folder)
    return folder


def test_each_start_is_added(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["scripts/train.py", "a b=c"])
    note_start(tmp_path, 123, "CPU", 1, data_report())
    monkeypatch.setattr(sys, "argv", ["scripts/train.py", "resume=x"])
    note_start(tmp_path, 123, "GPU", 2, data_report())
    found = Provenance.read(tmp_path)
    assert (found.parameters, found.data) == (123, "data-fingerprint")
    assert [(one.command, one.device, one.processes) for one in found.starts] == [
        ("seq2seq train 'a b=c'", "CPU", 1),
        ("seq2seq train resume=x", "GPU", 2),
    ]
    assert {one.folder for one in found.starts} == {str(Path.cwd())}
    assert found.starts[0].versions["torch"] == version("torch")
    text = (tmp_path / DATA_REPORT).read_text(encoding="utf-8")
    assert Report(**json.loads(text)) == data_report()


def test_each_start_knows_its_data(tmp_path):
    for name in ("one", "two"):
        note_start(tmp_path, 1, "CPU", 1, replace(data_report(), fingerprint=name))
    found = Provenance.read(tmp_path)
    assert ([start.data for start in found.starts], found.data) == (["one", "two"], "two")


START = {"time": "t", "command": "c", "revision": None, "versions": {}, "device": "d",
         "processes": 1}  # fmt: skip


def damaged(**start):
    return json.dumps({"parameters": 1, "data": None, "starts": [START | start]})


def test_a_note_of_an_older_version_and_one_without_starts_can_be_read(tmp_path):
    (tmp_path / NAME).write_text(damaged())
    assert Provenance.read(tmp_path).starts == [LaunchRecord(**START)]
    (tmp_path / NAME).write_text('{"parameters": 1, "data": null, "starts": []}')
    assert Provenance.read(tmp_path) == Provenance(1, None, [])
    note_start(tmp_path, 1, "CPU", 1, data_report())
    assert len(Provenance.read(tmp_path).starts) == 1


@pytest.mark.parametrize(
    "text", ["{", "", "[]", "null", '{"parameters": "x", "data": null, "starts": []}',
             '{"parameters": 1, "data": null, "starts": [5]}', damaged(new=1)],
)  # fmt: skip
def test_a_damaged_note_is_one_message_and_no_reason_not_to_train(tmp_path, text):
    (tmp_path / NAME).write_text(text)
    with pytest.raises(RunError, match=f"cannot read .*{NAME}.*restore it, or delete it"):
        Provenance.read(tmp_path)
    note_start(tmp_path, 1, "CPU", 1, data_report())
    assert len(Provenance.read(tmp_path).starts) == 1


def test_the_revision_is_the_commit_of_the_code(package):
    commit = git(package, "rev-parse", "HEAD")
    assert code_revision() == commit
    (package / "new.py").write_text("x")
    assert code_revision() == f"{commit}+"
    (package / "new.py").rename(package.parent / "new.py")
    (package / "note.txt").write_text("x")
    assert code_revision() == commit  # neither is part of the package
    (package / "__init__.py").write_text("x")
    assert code_revision() == f"{commit}+"


def test_code_of_which_git_cannot_say_that_it_is_clean_counts_as_changed(package, monkeypatch):
    commit, asked = code_revision(), provenance._git
    monkeypatch.setattr(provenance, "_git", lambda *a: None if a[0] == "status" else asked(*a))
    assert code_revision() == f"{commit}+"


def test_a_copy_inside_of_another_checkout_has_no_revision(package, monkeypatch):
    copy = package.parent / "site-packages"
    copy.mkdir()
    (copy / "__init__.py").write_text("")
    monkeypatch.setattr(provenance, "PACKAGE", copy)
    assert code_revision() is None


def test_without_git_there_is_no_revision(package, monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert code_revision() is None
