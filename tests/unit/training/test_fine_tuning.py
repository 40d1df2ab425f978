"""`init_from`: what is taken from a model, what may differ, what is refused and in which words."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf
from tiny import tiny_transformer

from seq2seq.bundle.bundle import Bundle
from seq2seq.cli import settings
from seq2seq.config import CleaningConfig, DecodeConfig, TokenizerConfig, TrainConfig
from seq2seq.data.tokenizer import Tokenizer
from seq2seq.data.vocabularies import Vocabularies
from seq2seq.errors import BundleError, ConfigError, RunError
from seq2seq.training.fine_tuning import initial_bundle, model_differences

STEPS = ["nfc", "controls", "spaces"]


def vocabularies(text: str) -> Vocabularies:
    shared = Tokenizer.train([text] * 5, 270)
    return Vocabularies(shared, shared)


@pytest.fixture(scope="module")
def bundle() -> Bundle:
    words = vocabularies("the house is big")
    model = tiny_transformer(vocab_size=words.sizes[0], activation="swiglu")
    made = {"step": 3, "scores": {}, "config": {"cleaning": {"languages": ["en", "fr"]}}}
    return Bundle(model, words, DecodeConfig(), made, STEPS)


@pytest.fixture(scope="module")
def folder(bundle, tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("models") / "bundle"
    bundle.save(path)
    return path


@pytest.fixture
def command():
    """Settings as the command line makes them."""
    files = settings.resources()
    OmegaConf.register_new_resolver("root", lambda path: str(files / path), replace=True)
    settings.register("train", TrainConfig)

    def run(*overrides: object) -> TrainConfig:
        texts = [str(override) for override in overrides]
        folder = str(settings.resources() / "configs")
        with initialize_config_dir(version_base="1.3", config_dir=folder):
            return settings._to_settings(compose("train", texts), texts, TrainConfig)

    return run


def test_the_model_is_that_of_the_weights_with_what_the_command_line_changes(
    command, bundle, folder
):
    config = command(f"init_from={folder}", "experiment=demo", "model.dropout=0.3", "seed=7")
    assert config.model == replace(bundle.model.config, dropout=0.3)
    assert config.seed == 7
    started = initial_bundle(config)
    assert started.vocabularies.content_hash() == bundle.vocabularies.content_hash()
    for name, value in bundle.model.state_dict().items():
        assert value.equal(started.model.state_dict()[name])


def test_a_model_that_is_named_must_fit_and_every_difference_is_said(command, folder):
    with pytest.raises(RunError) as error:
        initial_bundle(command(f"init_from={folder}", "model=base", "model.activation=swiglu"))
    lines = str(error.value).splitlines()
    assert lines[0] == f"the weights of init_from={folder} do not fit this model:"
    assert "  - model.d_model: 16 there, 512 here" in lines
    assert "  - model.d_ff: 24 there, 2048 here" in lines
    assert not any("activation" in line or "max_length" in line for line in lines)
    with pytest.raises(RunError, match=r"model\.n_heads: 4 there, 2 here"):
        initial_bundle(command(f"init_from={folder}", "model.n_heads=2"))


def test_longer_texts_need_other_weights_only_where_positions_are_learned(bundle):
    config = bundle.model.config
    assert not model_differences(config, replace(config, max_length=99, name="x"))
    learned = replace(config, positions="learned")
    assert model_differences(learned, replace(learned, max_length=99)) == [
        "model.max_length: 48 there, 99 here"
    ]


def test_vocabulary(command, folder, tmp_path):
    vocabularies("la maison").save(tmp_path)
    with pytest.raises(RunError, match="is not the vocabulary of init_from="):
        initial_bundle(command(f"init_from={folder}", f"tokenizer.path={tmp_path}"))
    initial_bundle(command(f"init_from={folder}", f"tokenizer.path={folder}"))
    with pytest.raises(ConfigError, match=r"tokenizer\.vocab_size does nothing with init_from="):
        command(f"init_from={folder}", "tokenizer.vocab_size=300")


def test_the_other_direction_is_refused(folder):
    config = TrainConfig(init_from=str(folder), model=tiny_transformer(activation="swiglu").config,
                         cleaning=CleaningConfig(languages=["fr", "en"]))
    with pytest.raises(RunError, match=r"translates en to fr, .* set cleaning.languages=\[en,fr\]"):
        initial_bundle(config)


def test_other_normalisation_is_warned_of(command, folder, caplog):
    initial_bundle(command(f"init_from={folder}"))
    assert not caplog.text
    initial_bundle(command(f"init_from={folder}", "cleaning.normalise=[nfc]"))
    assert "and this run normalises by ['nfc']: it must get used to that" in caplog.text
    assert "'cleaning.normalise=[nfc,controls,spaces]'" in caplog.text


def test_without_a_bundle_there_is_nothing_to_start_from(command, tmp_path):
    with pytest.raises(BundleError, match="no model folder"):
        command(f"init_from={tmp_path / 'none'}")


def test_either_resume_or_init_from(command, folder, tmp_path):
    OmegaConf.save({"seed": 3}, tmp_path / "config.yaml")
    with pytest.raises(RunError, match="as it was, so init_from= cannot be given"):
        command(f"resume={tmp_path}", f"init_from={folder}")


@pytest.mark.parametrize("variable", ["TORCHELASTIC_RESTART_COUNT", "SLURM_RESTART_COUNT"])
def test_a_command_line_that_is_started_again_goes_on_with_its_run(
    command, tmp_path, monkeypatch, variable
):
    monkeypatch.setenv(variable, "1")
    line = (f"run_dir={tmp_path}", "model=tiny", "optim.lr=0.01")
    assert command(*line).resume is None  # it died before it had a folder
    (tmp_path / "config.yaml").touch()
    config = command(*line)
    assert config.resume == str(tmp_path)
    assert (config.model.name, config.optim.lr) == ("tiny", 0.01)
    monkeypatch.setenv(variable, "0")
    assert command(*line).resume is None
    assert command(*line[1:]).resume is None


def test_its_tokenizer_settings_are_not_asked_for(command, folder):
    assert command(f"init_from={folder}", "tokenizer.dropout=0.1").tokenizer == TokenizerConfig(
        dropout=0.1
    )
