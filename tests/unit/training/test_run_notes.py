"""What a run writes of itself meets a full disk with one message, and is whole or not there."""

from __future__ import annotations

import errno
import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from conftest import toy_settings
from tiny import tiny_transformer

from seq2seq.callbacks.gradient_norms import GradientNorms
from seq2seq.errors import RunError
from seq2seq.training import run

SUMMARY = {"steps": 2, "seconds": 1.0, "best_val_bleu": 3.0}


def note(run_dir):
    data = SimpleNamespace(prepared=None)
    run._note(toy_settings(), run_dir, data, tiny_transformer(), "CPU")


def finish(run_dir):
    run._finish(toy_settings(), run_dir, SUMMARY, "at step 2")


@pytest.mark.parametrize("write", [note, finish])
def test_a_full_disk_is_one_message_that_says_how_to_go_on(tmp_path, monkeypatch, write):
    def full(path, *_, **__):
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(RunError, match=r"No space left.*Make room.*resume="):
        write(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_summary_is_whole(tmp_path):
    finish(tmp_path)
    assert json.loads((tmp_path / "summary.json").read_text()) == SUMMARY
    assert not list(tmp_path.glob("*.partial"))


@pytest.mark.parametrize(("kind", "wanted"), [("none", False), ("csv", True)])
def test_gradient_norms_are_wanted_where_they_are_logged(tmp_path, kind, wanted):
    settings = toy_settings(f"logger={kind}")
    bleu, data = SimpleNamespace(pairs=[]), SimpleNamespace(prepared=None)
    found = run._recording(settings, tmp_path, data, bleu, [], "")
    assert [one.wanted for one in found if isinstance(one, GradientNorms)] == [wanted]
