"""Misspelt names are answered with the right ones."""

from __future__ import annotations

import pytest
from composing import GROUPS, compose, composed, explained
from hydra.core.config_store import ConfigStore
from hydra.errors import HydraException

from seq2seq.cli.explain import explain
from seq2seq.cli.names import settings_of
from seq2seq.config import RecurrentConfig, TrainConfig


@pytest.mark.parametrize(
    ("group", "name"), [o for o in GROUPS if o[1] not in ("cpu", "gpu", "csv")][::4]
)
def test_a_misspelt_option_names_the_right_one(group, name):
    text = explained(f"{group}={name}x")
    assert f"{group}={name}x is not known: did you mean " in text
    assert f"'{name}'" in text


@pytest.mark.parametrize("key", sorted(k for k in settings_of(TrainConfig) if "." in k)[::15])
def test_a_misspelt_key_names_the_right_one(key):
    text = explained(f"{key}x=1")
    assert f"no setting '{key}x': did you mean '{key}'" in text


def test_a_setting_of_another_kind_of_model_is_no_setting_of_this_one():
    text = explained("model=rnn_attention", "model.n_heads=2")
    assert text.startswith("model.n_heads is not a setting of this kind of model: leave it out")
    text = explained("model=tiny", "model.d_attention=2")
    assert text.startswith("model.d_attention is not a setting of this kind of model")


def test_a_preset_without_a_kind_of_model_is_told_how_to_begin(monkeypatch):
    ConfigStore.instance().store(group="model", name="plain", node={"name": "plain", "n_heads": 2})
    with pytest.raises(HydraException) as error:
        compose("model=plain")
    said = explain(error.value, TrainConfig)
    assert "begin the preset with the lines 'defaults:' and '  - base'" in said


def test_presets_may_build_on_each_other():
    grouped = composed("model=base_gqa").model
    assert (grouped.n_heads, grouped.n_kv_heads, grouped.d_model) == (8, 2, 512)
    assert isinstance(composed("model=rnn_attention").model, RecurrentConfig)
