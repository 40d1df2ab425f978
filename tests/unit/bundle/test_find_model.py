"""Which model is taken: the named one, the environment's, the chosen one, the shipped one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tiny_bundle import tiny_bundle

from seq2seq.bundle import find as shipped
from seq2seq.bundle.find import bundle_folder, choose_model, find_model, finished_runs
from seq2seq.errors import BundleError, RunError


@pytest.fixture(autouse=True)
def nothing_to_find(monkeypatch, tmp_path):
    monkeypatch.delenv("SEQ2SEQ_MODEL", raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "settings"))
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


def test_finished_runs_go_from_old_to_new_whatever_their_names(runs):
    assert finished_runs(runs) == [runs / "z", runs / "deep" / "b"]


@pytest.fixture
def general(tmp_path) -> Path:
    """A shipped model."""
    tiny_bundle().save(tmp_path / "pretrained" / "general")
    return tmp_path / "pretrained" / "general"


def make_run(folder: Path, bleu: float, **trainer: object) -> Path:
    """A finished run of so many BLEU."""
    bundle = tiny_bundle()
    bundle.training |= {"scores": {"BLEU": bleu}, "config": {"trainer": trainer}}
    bundle.save(folder / "bundle")
    (folder / "summary.json").write_text("{}")
    return folder


def test_then_the_chosen_one_from_any_folder(general, tmp_path, monkeypatch):
    mine = make_run(Path("runs/mine"), 30.0)
    assert choose_model("runs/mine") == mine
    monkeypatch.chdir(general)
    assert find_model(None) == (tmp_path / "runs" / "mine", "chosen with --use")
    monkeypatch.setenv("SEQ2SEQ_MODEL", "general")
    assert find_model(None).why == "from SEQ2SEQ_MODEL"
    monkeypatch.setenv("SEQ2SEQ_MODEL", "")
    choose_model("general")
    assert find_model(None) == (general, "chosen with --use")


def test_a_chosen_one_that_is_gone_is_told(general, tmp_path):
    mine = make_run(tmp_path / "mine", 30.0)
    choose_model(str(mine))
    mine.rename(tmp_path / "other")
    with pytest.raises(BundleError, match=r"mine, is gone: choose another, .* --use general"):
        find_model(None)


@pytest.mark.parametrize(
    ("bleu", "trainer", "why"),
    [
        (0.4, {}, r"has learnt nothing \(BLEU 0\.4\)"),
        (30.0, {"val_pairs": 8}, "for debugging"),
        (100.0, {"val_on_train": True}, "for debugging"),
    ],
)
def test_runs_that_nobody_wants_are_neither_chosen_nor_recommended(general, bleu, trainer, why):
    make_run(Path("runs/mine"), bleu, **trainer)
    with pytest.raises(BundleError, match=f"runs/mine .*{why}.*can be named"):
        choose_model("runs/mine")
    assert find_model(None) == (general, "general, shipped with seq2seq")


def test_then_the_shipped_one_which_tells_of_a_run(general, tmp_path):
    assert find_model(None, tmp_path / "none") == (general, "general, shipped with seq2seq")
    make_run(Path("runs/mine"), 31.44)
    folder, why = find_model(None)
    assert folder == general
    assert why.endswith("; the run runs/mine has BLEU 31.4 on its data: --use runs/mine")


def test_a_choice_that_cannot_be_kept_is_told(general, monkeypatch, tmp_path):
    (tmp_path / "settings").write_text("no folder")
    with pytest.raises(RunError, match="SEQ2SEQ_MODEL=general instead"):
        choose_model("general")


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
    assert f"this package is not in {tmp_path / 'pretrained'}" in text
    for useful in ("make demo", "scripts/train.py", "translate --model", "SEQ2SEQ_MODEL"):
        assert useful in text
