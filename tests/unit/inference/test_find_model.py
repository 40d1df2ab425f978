"""Which model is taken: the named one, the environment's, the newest finished run, the shipped."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tiny_bundle import tiny_bundle

from seq2seq.errors import BundleError
from seq2seq.inference import shipped
from seq2seq.inference.bundle_folder import bundle_folder
from seq2seq.inference.find_model import find_model, finished_runs


@pytest.fixture(autouse=True)
def nothing_to_find(monkeypatch, tmp_path):
    monkeypatch.delenv("SEQ2SEQ_MODEL", raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(shipped, "PRETRAINED", tmp_path / "pretrained")


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


@pytest.fixture
def general(tmp_path) -> Path:
    """A shipped model."""
    tiny_bundle().save(tmp_path / "pretrained" / "general")
    return tmp_path / "pretrained" / "general"


def test_then_the_model_that_the_package_ships(general, runs, tmp_path):
    assert find_model(None, tmp_path / "none") == (general, "general, shipped with seq2seq")
    assert find_model(None, runs)[0] != general


def test_a_name_is_that_of_a_shipped_model_unless_another_is_called_so(general, runs, monkeypatch):
    assert find_model("general", runs) == (general, "named")
    assert bundle_folder("general") == bundle_folder(Path("general")) == general
    monkeypatch.setenv("SEQ2SEQ_MODEL", "general")
    assert find_model(None, runs) == (general, "from SEQ2SEQ_MODEL")
    Path("general").mkdir()
    Path("general", "train.tsv").write_text("a\tb\n")  # a folder of data
    assert find_model("general", runs) == (general, "named")
    Path("general", "bundle").mkdir()  # one of a model, whose errors tell what it lacks
    assert find_model("general", runs) == (Path("general"), "named")


@pytest.mark.parametrize("name", ["generale", "../pretrained/general", "", ".", "general/", "/"])
def test_nothing_else_is_taken_for_that_name(general, name):
    assert shipped.shipped_model(name) is None


def test_names_that_are_none_are_told_those_that_are(general):
    with pytest.raises(BundleError, match=r"no model folder genral: .* shipped model \(general\)$"):
        find_model("genral")


def test_where_the_shipped_model_is_missing_its_name_says_so(tmp_path):
    with pytest.raises(BundleError) as error:
        find_model("general")
    text = str(error.value)
    assert text.startswith("no model folder general: give the folder of a run")
    assert text.endswith(f"the shipped model is not in {tmp_path / 'pretrained'}")


def test_without_any_the_message_says_how_to_get_one(tmp_path):
    with pytest.raises(BundleError) as error:
        find_model(None, tmp_path / "none")
    text = str(error.value)
    assert str(tmp_path / "none") in text
    assert f"the model of this package is not in {tmp_path / 'pretrained'}" in text
    for useful in ("make demo", "scripts/train.py", "translate --model", "SEQ2SEQ_MODEL"):
        assert useful in text
