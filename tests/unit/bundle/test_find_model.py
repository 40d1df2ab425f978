"""Which model is taken: the named one, the environment's, the chosen one, the shipped one."""

from __future__ import annotations

from pathlib import Path

import pytest
from tiny_bundle import tiny_bundle

from seq2seq.bundle import find as shipped
from seq2seq.bundle.find import bundle_folder, choose_model, find_model
from seq2seq.errors import BundleError, RunError


@pytest.fixture(autouse=True)
def nothing_to_find(monkeypatch, tmp_path):
    monkeypatch.delenv("SEQ2SEQ_MODEL", raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "settings"))
    monkeypatch.setattr(shipped, "PRETRAINED", tmp_path / "pretrained")


def test_the_named_model_wins(tmp_path, monkeypatch):
    monkeypatch.setenv("SEQ2SEQ_MODEL", "other")
    mine = tmp_path / "mine"
    mine.mkdir()
    assert find_model(str(mine)) == (mine, "named")
    for name in ("nowhere", "runs/demo"):  # the second is no model of the hub
        with pytest.raises(BundleError, match=rf"no model folder {name}: give the folder of a run"):
            find_model(name)


def test_the_folder_where_one_stands_can_be_named(general, monkeypatch):
    monkeypatch.chdir(general)
    assert find_model(".") == (Path(), "named")


def test_then_the_environment(tmp_path, monkeypatch):
    other = tmp_path / "other"
    other.mkdir()
    monkeypatch.setenv("SEQ2SEQ_MODEL", str(other))
    assert find_model(None) == (other, "from SEQ2SEQ_MODEL")


@pytest.fixture
def general(tmp_path) -> Path:
    """A shipped model."""
    tiny_bundle().save(tmp_path / "pretrained" / "general")
    return tmp_path / "pretrained" / "general"


def make_run(folder: Path) -> Path:
    """A finished run."""
    tiny_bundle().save(folder / "bundle")
    (folder / "summary.json").write_text("{}")
    return folder


def test_then_the_chosen_one_from_any_folder(general, tmp_path, monkeypatch):
    mine = make_run(Path("runs/mine"))
    assert choose_model("runs/mine") == mine
    monkeypatch.chdir(general)
    assert find_model(None) == (tmp_path / "runs" / "mine", "chosen with --use")
    monkeypatch.setenv("SEQ2SEQ_MODEL", "general")
    assert find_model(None).why == "from SEQ2SEQ_MODEL"
    monkeypatch.setenv("SEQ2SEQ_MODEL", "")
    choose_model("general")
    assert find_model(None) == (general, "chosen with --use")


def test_a_chosen_one_that_is_gone_is_told(general, tmp_path):
    mine = make_run(tmp_path / "mine")
    choose_model(str(mine))
    mine.rename(tmp_path / "other")
    with pytest.raises(BundleError, match=r"mine, chosen with --use: no model folder .*--use gen"):
        find_model(None)


def test_why_a_chosen_model_cannot_be_used_is_told(general, monkeypatch):
    """A model of the hub may be gated, or the hub out of reach."""
    def refuse(*_):
        raise BundleError("own/gated is gated: accept its terms")

    monkeypatch.setattr("seq2seq.bundle.hub.hub_bundle", refuse)
    monkeypatch.setenv("SEQ2SEQ_MODEL", "hf:own/gated")
    with pytest.raises(BundleError, match=r"from SEQ2SEQ_MODEL: own/gated is gated: .*unset the"):
        find_model(None)


def test_then_the_shipped_one_whatever_was_trained_here(general):
    make_run(Path("runs/mine"))
    assert find_model(None) == (general, "general, shipped with seq2seq")


def test_a_choice_that_cannot_be_kept_is_told(general, monkeypatch, tmp_path):
    (tmp_path / "settings").write_text("no folder")
    with pytest.raises(RunError, match="SEQ2SEQ_MODEL=general instead"):
        choose_model("general")


def test_a_name_is_that_of_a_shipped_model_unless_another_is_called_so(general, monkeypatch):
    assert find_model("general") == (general, "named")
    assert bundle_folder("general") == bundle_folder(Path("general")) == general
    monkeypatch.setenv("SEQ2SEQ_MODEL", "general")
    assert find_model(None) == (general, "from SEQ2SEQ_MODEL")
    Path("general").mkdir()
    Path("general", "train.tsv").write_text("a\tb\n")  # a folder of data
    assert find_model("general") == (general, "named")
    Path("general", "bundle").mkdir()  # one of a model, whose errors tell what it lacks
    assert find_model("general") == (Path("general"), "named")


@pytest.mark.parametrize("name", ["generale", "../pretrained/general", "", ".", "general/", "/"])
def test_nothing_else_is_taken_for_that_name(general, name):
    assert shipped.shipped_model(name) is None


def test_names_that_are_none_are_told_those_that_are(general):
    with pytest.raises(BundleError, match=r"no model folder genral: .* shipped .*: general\)$"):
        find_model("genral")


def test_where_the_shipped_model_is_missing_its_name_says_so(tmp_path):
    with pytest.raises(BundleError) as error:
        find_model("general")
    text = str(error.value)
    assert text.startswith("no model folder general: give the folder of a run")
    assert text.endswith(f"or a shipped model (in {tmp_path / 'pretrained'}: none)")


def test_without_any_the_message_says_how_to_get_one(tmp_path):
    with pytest.raises(BundleError) as error:
        find_model(None)
    text = str(error.value)
    assert f"this package is not in {tmp_path / 'pretrained'}" in text
    for useful in ("make demo", "scripts/train.py", "translate --model", "SEQ2SEQ_MODEL"):
        assert useful in text
