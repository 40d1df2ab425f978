"""What a run notes of its making."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import version

import pytest
from example_run import data_report

from seq2seq.data.report import Report
from seq2seq.errors import RunError
from seq2seq.training import origin
from seq2seq.training.origin import DATA_REPORT, NAME, Origin, code_revision, note_start


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
    monkeypatch.setattr(origin, "PACKAGE", folder)
    return folder


def test_each_start_is_added(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["scripts/train.py", "a b=c"])
    note_start(tmp_path, 123, "CPU", 1, data_report())
    monkeypatch.setattr(sys, "argv", ["scripts/train.py", "resume=x"])
    note_start(tmp_path, 123, "GPU", 2, data_report())
    found = Origin.read(tmp_path)
    assert (found.parameters, found.data) == (123, "data-fingerprint")
    assert [(one.command, one.device, one.processes) for one in found.starts] == [
        ("python scripts/train.py 'a b=c'", "CPU", 1),
        ("python scripts/train.py resume=x", "GPU", 2),
    ]
    assert found.starts[0].versions["torch"] == version("torch")
    text = (tmp_path / DATA_REPORT).read_text(encoding="utf-8")
    assert Report(**json.loads(text)) == data_report()


def test_streamed_data_have_no_report(tmp_path):
    note_start(tmp_path, 1, "CPU", 1, None)
    assert Origin.read(tmp_path).data is None
    assert not (tmp_path / DATA_REPORT).exists()


def test_a_damaged_note_is_one_message_and_no_reason_not_to_train(tmp_path):
    (tmp_path / NAME).write_text("{")
    with pytest.raises(RunError, match=f"cannot read .*{NAME}.*restore it, or delete it"):
        Origin.read(tmp_path)
    note_start(tmp_path, 1, "CPU", 1, None)
    assert len(Origin.read(tmp_path).starts) == 1


def test_the_revision_is_the_commit_of_the_code(package):
    commit = git(package, "rev-parse", "HEAD")
    assert code_revision() == commit
    (package / "new.py").write_text("x")
    assert code_revision() == commit  # not part of the code yet
    (package / "__init__.py").write_text("x")
    assert code_revision() == f"{commit}+"


def test_a_copy_inside_of_another_checkout_has_no_revision(package, monkeypatch):
    copy = package.parent / "site-packages"
    copy.mkdir()
    (copy / "__init__.py").write_text("")
    monkeypatch.setattr(origin, "PACKAGE", copy)
    assert code_revision() is None


def test_without_git_there_is_no_revision(package, monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert code_revision() is None
