"""Settings that once had another name, or are gone: stored ones are read."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import asdict
from typing import Any

import pytest
import yaml
from composing import compose
from conftest import ROOT

from seq2seq.bundle.config import read_config
from seq2seq.cli.names import settings_of
from seq2seq.cli.resume import resumed
from seq2seq.config import TrainConfig, migrated
from seq2seq.config.renames import REMOVED, RENAMED
from seq2seq.errors import RunError
from seq2seq.report.run import read_run
from seq2seq.training.checkpointing import check_settings

OLD = {  # what a run of before the renames may have stored, but for defaults
    "optim.final_lr": 0.2,
    "trainer.on_bad_step": "stop",
    "trainer.spike": 7.5,
    "trainer.split": 4,
    "trainer.halve_on_oom": True,
    "data.streaming": False,
    "data.longest_first": False,
    "optim.r_drop": 0.0,
    "decode.coverage": 0.0,
    "decode.groups": 1,
    "decode.diversity": 0.7,
    "decode.samples": 8,
    "logger.upload_bundle": True,
    "model.word_dropout": 0.0,
}
OF_EVALUATE = ("comet", "comet_command")  # never stored
GROUPS = ("optim", "trainer", "decode", "logger", "data", "model")  # of these
IN_USE = {"data.streaming": True, "data.longest_first": True, "optim.r_drop": 5.0,
          "decode.coverage": 0.2, "decode.groups": 3, "model.word_dropout": 0.1}  # fmt: skip


def as_before(settings: TrainConfig) -> dict[str, Any]:
    """Settings as a run of before the renames stored them, with the values of `OLD`."""
    stored = asdict(settings)
    for key in RENAMED.values():
        section, _, name = key.partition(".")
        del stored[section][name]
    for key, value in OLD.items():
        section, _, name = key.partition(".")
        stored[section][name] = value
    return stored


@pytest.fixture
def stored() -> dict[str, Any]:
    settings = TrainConfig()
    settings.optim.schedule = "cosine"
    return as_before(settings)


def value_of(settings: Any, key: str) -> Any:
    section, _, name = key.partition(".")
    return settings[section][name]


def test_every_old_name_is_tested_and_every_new_one_exists():
    assert set(OLD) == {*RENAMED, *REMOVED} - {*OF_EVALUATE}
    keys = set(settings_of(TrainConfig))
    assert set(RENAMED.values()) <= keys
    assert not set(OLD) & keys


def test_stored_settings_get_the_names_of_today_and_keep_their_values_and_order(stored):
    before = json.dumps(stored)
    found = migrated(stored)
    assert json.dumps(stored) == before
    for old, new in RENAMED.items():
        assert value_of(found, new) == OLD[old]
    flat = {f"{section}.{name}" for section in GROUPS for name in found[section]}
    assert not flat & set(OLD)
    assert {**found, **dict.fromkeys(GROUPS)} == {**stored, **dict.fromkeys(GROUPS)}
    assert migrated(found) == found
    assert migrated({"model": {"final_lr": 1}, "trainer": None}) == {
        "model": {"final_lr": 1}, "trainer": None
    }  # fmt: skip


def test_an_interrupted_run_goes_on_with_its_values(stored, tmp_path):
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(stored))
    found = resumed(compose(), [], str(tmp_path))
    for old, new in RENAMED.items():
        assert value_of(found, new) == OLD[old]
    check_settings(tmp_path, stored, found | {"resume": None})
    found["optim"]["final_lr_ratio"] = 0.0
    with pytest.raises(RunError, match=r"optim\.final_lr_ratio was 0\.2, and is 0\.0 now"):
        check_settings(tmp_path, stored, found)
    found["optim"]["final_lr_ratio"], found["data"]["weights"] = 0.2, {"a": 3}
    with pytest.raises(RunError, match=r"data\.weights was {}, and is {'data\.weights\.a': 3} now"):
        check_settings(tmp_path, stored, found)


def test_a_report_and_a_bundle_know_them_by_the_names_of_today(stored, tmp_path):
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(stored))
    settings = read_run(tmp_path, "x").settings
    shutil.copy(ROOT / "docs" / "decoding_model" / "config.json", tmp_path)
    bundle = json.loads((tmp_path / "config.json").read_text())
    bundle["training"]["config"] = stored
    (tmp_path / "config.json").write_text(json.dumps(bundle))
    trained = read_config(tmp_path / "config.json").training["config"]
    for found in (settings, trained):
        assert {new: value_of(found, new) for new in RENAMED.values()} == {
            new: OLD[old] for old, new in RENAMED.items()
        }
        assert not {"split", "halve_on_oom"} & set(found["trainer"])


def put(settings: dict[str, Any], key: str, value: Any) -> None:
    section, _, name = key.partition(".")
    settings[section][name] = value


@pytest.mark.parametrize("key", [*IN_USE, "decode.strategy"])
def test_a_run_that_used_what_is_gone_keeps_saying_so_and_does_not_go_on(key, stored, tmp_path):
    value = IN_USE.get(key, "mbr")
    put(stored, key, value)
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(stored))
    assert value_of(read_run(tmp_path, "x").settings, key) == value
    said = f"{re.escape(f'{key}={value}')}.* is gone. The last version .* is revision a4b07cc"
    with pytest.raises(RunError, match=said):
        resumed(compose(), [], str(tmp_path))


def test_a_bundle_that_used_what_is_gone_is_searched_by_a_beam_and_says_so(tmp_path, caplog):
    bundle = json.loads((ROOT / "docs" / "decoding_model" / "config.json").read_text())
    bundle["decode"]["length_penalty"] = 0.5
    plain, file = bundle["decode"], tmp_path / "config.json"
    file.write_text(json.dumps(bundle))
    expected = read_config(file).decode
    assert not caplog.records
    for changed, said in (
        ({"coverage": 0.2}, "decode.coverage=0.2"),
        ({"groups": 3, "diversity": 1.0}, "decode.groups=3"),
        ({"strategy": "mbr", "samples": 8}, "decode.strategy=mbr"),
    ):
        file.write_text(json.dumps(bundle | {"decode": plain | changed}))
        assert read_config(file).decode == expected
        assert caplog.messages.pop() == (
            f"{file} asks for {said}, which is gone: a plain beam searches instead"
        )
        caplog.clear()


def test_a_bundle_says_what_it_was_trained_with_and_is_read_all_the_same(tmp_path):
    bundle = json.loads((ROOT / "docs" / "decoding_model" / "config.json").read_text())
    bundle["model"]["word_dropout"] = bundle["training"]["config"]["model"]["word_dropout"] = 0.3
    (tmp_path / "config.json").write_text(json.dumps(bundle))
    found = read_config(tmp_path / "config.json")
    assert found.training["config"]["model"]["word_dropout"] == 0.3
