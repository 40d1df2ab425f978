"""Which model is taken: the named one, the environment's, the newest finished run."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from seq2seq.errors import BundleError
from seq2seq.inference import find_model as module
from seq2seq.inference.find_model import find_model, finished_runs


@pytest.fixture(autouse=True)
def nothing_to_find(monkeypatch, tmp_path):
    monkeypatch.delenv("SEQ2SEQ_MODEL", raising=False)
    monkeypatch.chdir(tmp_path)
    package = tmp_path / "package"
    package.mkdir()
    monkeypatch.setattr(module.resources, "files", lambda name: package)


@pytest.fixture
def runs(tmp_path) -> Path:
    """Three runs: the newest folder is unfinished, `b` finished after `z`."""
    for age, name in ((200, "z"), (100, "deep/b"), (0, "unfinished")):
        folder = tmp_path / "runs" / name
        folder.mkdir(parents=True)
        if name != "unfinished":
            (folder / "summary.json").write_text("{}")
            os.utime(folder / "summary.json", (1e9 - age, 1e9 - age))
    return tmp_path / "runs"


def test_the_named_model_wins(runs, monkeypatch):
    monkeypatch.setenv("SEQ2SEQ_MODEL", "other")
    mine = runs.parent / "mine"
    mine.mkdir()
    assert find_model(str(mine), runs) == (mine, "named")
    with pytest.raises(BundleError, match=r"no model folder nowhere: give the folder of a run"):
        find_model("nowhere", runs)


def test_then_the_environment(runs, monkeypatch):
    other = runs.parent / "other"
    other.mkdir()
    monkeypatch.setenv("SEQ2SEQ_MODEL", str(other))
    assert find_model(None, runs) == (other, "from SEQ2SEQ_MODEL")


@pytest.mark.parametrize("value", ["", None])
def test_then_the_newest_finished_run(value, runs, monkeypatch):
    if value is not None:
        monkeypatch.setenv("SEQ2SEQ_MODEL", value)
    assert find_model(None, runs) == (runs / "deep" / "b", "the newest finished run")


def test_runs_below_the_current_folder_are_looked_at(runs):
    assert find_model(None)[0] == Path("runs/deep/b")


def test_finished_runs_go_from_old_to_new_whatever_their_names(runs):
    assert finished_runs(runs) == [runs / "z", runs / "deep" / "b"]


def test_then_a_model_that_the_package_ships(tmp_path):
    (tmp_path / "package" / "bundle").mkdir()
    found = find_model(None, tmp_path / "runs")
    assert found == (tmp_path / "package" / "bundle", "shipped with seq2seq")


def test_without_any_the_message_says_how_to_get_one(tmp_path):
    with pytest.raises(BundleError) as error:
        find_model(None, tmp_path / "none")
    text = str(error.value)
    assert str(tmp_path / "none") in text
    for useful in ("make demo", "scripts/train.py", "translate --model", "SEQ2SEQ_MODEL"):
        assert useful in text
