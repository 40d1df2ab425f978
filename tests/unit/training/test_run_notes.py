"""What a run writes of itself meets a full disk with one message, and is whole or not there."""

from __future__ import annotations

import errno
import json
import os
from types import SimpleNamespace

import pytest
from conftest import toy_settings

from seq2seq.callbacks.gradient_norms import GradientNorms
from seq2seq.errors import RunError
from seq2seq.training.train import finish, make_callbacks, make_up_for_report

VALIDATION = SimpleNamespace(best=3.0, best_step=2, average=-1.0, summary=None, pairs=[])


def end(run_dir):
    trainer = SimpleNamespace(step=2, trackers=[], run=SimpleNamespace(folder=run_dir))
    finish(toy_settings(), trainer, VALIDATION, 1.0)


def test_a_full_disk_is_one_message_that_says_how_to_go_on(tmp_path, monkeypatch):
    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(RunError, match=r"No space left.*Make room.*resume="):
        end(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_summary_is_whole(tmp_path):
    end(tmp_path)
    assert json.loads((tmp_path / "summary.json").read_text()) == {
        "steps": 2, "stopped_early": True, "best_step": 2, "best_val_bleu": 3.0, "seconds": 1.0,
    }  # fmt: skip
    assert not list(tmp_path.glob("*.partial"))


def test_a_report_is_made_up_for_only_where_a_finished_run_lacks_it(tmp_path, monkeypatch):
    made = []
    monkeypatch.setattr("seq2seq.report.page.write_report", lambda runs, path: made.append(path))
    make_up_for_report(tmp_path)
    assert made == []  # the run is not finished
    (tmp_path / "summary.json").write_text("{}")
    make_up_for_report(tmp_path)
    assert made == [tmp_path / "report.html"]
    made[0].touch()
    make_up_for_report(tmp_path)
    assert len(made) == 1


@pytest.mark.parametrize(("kind", "wanted"), [("none", False), ("csv", True)])
def test_gradient_norms_are_wanted_where_they_are_logged(tmp_path, kind, wanted):
    settings = toy_settings(f"logger={kind}")
    run, data = SimpleNamespace(folder=tmp_path), SimpleNamespace(prepared=None)
    found = make_callbacks(settings, run, data, VALIDATION)
    assert any(isinstance(one, GradientNorms) for one in found) == wanted
