"""Every YAML file fills the dataclasses; impossible settings are refused with words that help."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, fields
from typing import Any

import pytest
from hydra import compose, initialize_config_dir
from hydra.core.config_store import ConfigStore
from hydra.errors import HydraException
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from seq2seq.cli.settings import ROOT, _explain, _resumed, build, keys_of, register
from seq2seq.config import (
    AverageConfig,
    CheckpointConfig,
    CleaningConfig,
    CorpusConfig,
    DataConfig,
    DecodeConfig,
    EvaluateConfig,
    LoggerConfig,
    OptimConfig,
    PrepareConfig,
    RecurrentConfig,
    TokenizerConfig,
    TrainConfig,
    TrainerConfig,
    TransformerConfig,
)
from seq2seq.errors import ConfigError
from seq2seq.training.run_folder import write_settings

CONFIGS = ROOT / "configs"
OPTIONS = sorted((file.parent.name, file.stem) for file in CONFIGS.glob("*/*.yaml"))
ACROSS = [option for option in OPTIONS if option[0] in ("experiment", "debug")]  # several groups
GROUPS = [option for option in OPTIONS if option not in ACROSS]
MIXED: dict[str, Any] = {"train": None, "members": {"a": CorpusConfig()}}
SCHEMAS: dict[str, type[Any]] = {"train": TrainConfig, "evaluate": EvaluateConfig}


@pytest.fixture(scope="module", autouse=True)
def hydra_as_in_the_commands() -> Iterator[None]:
    OmegaConf.register_new_resolver("root", lambda path: str(ROOT / path), replace=True)
    for name, schema in SCHEMAS.items():
        register(name, schema)
    with initialize_config_dir(version_base="1.3", config_dir=str(CONFIGS)):
        yield


def composed(*overrides: str, name: str = "train", **folders: str) -> Any:
    values = OmegaConf.to_container(compose(name, list(overrides)), resolve=True)
    assert isinstance(values, dict)
    return build(SCHEMAS[name], {**{str(key): value for key, value in values.items()}, **folders})


@pytest.mark.parametrize("own", [None, "mine"])
def test_members_in_a_shared_folder_move_with_it(own, tmp_path, monkeypatch):
    write_settings(composed("data=general", "data.path=old"), tmp_path)
    overrides = ["data.path=new", *([f"data.members.help.path={own}"] if own else [])]
    monkeypatch.setattr("seq2seq.cli.settings._overrides", lambda: overrides)
    data = _resumed(compose("train", ["data=general", *overrides]), str(tmp_path))["data"]
    assert data["path"] == data["members"]["tatoeba"]["path"] == "new"
    assert data["members"]["help"]["path"] == (own or "new")
    assert data["members"]["phrases"]["path"] == str(ROOT / "data/starter")


def explained(*overrides: str) -> str:
    with pytest.raises((HydraException, OmegaConfBaseException)) as error:
        compose("train", list(overrides))
    return _explain(error.value, TrainConfig)


def written(group: str, name: str) -> dict[str, Any]:
    """What stands in a file itself, resolved."""
    values = OmegaConf.create({group: OmegaConf.load(CONFIGS / group / f"{name}.yaml")})
    found = OmegaConf.to_container(values, resolve=True)
    assert isinstance(found, dict)
    found = found[group]
    return {str(key): value for key, value in found.items() if key != "defaults"}


def holds(section: Any, own: Any) -> bool:
    """Whether a section has what a file says, down to the members of mixtures."""
    if not isinstance(own, dict):
        return bool(section == own)
    return all(holds(section[key], value) for key, value in own.items())


# The files


def test_there_are_options_to_test():
    assert {group for group, _ in GROUPS} >= {
        "model",
        "data",
        "optim",
        "decode",
        "trainer",
        "logger",
    }
    assert {group for group, _ in ACROSS} == {"experiment", "debug"}


@pytest.mark.parametrize(("group", "name"), GROUPS)
def test_every_option_sets_what_it_says(group, name):
    section = asdict(getattr(composed(f"{group}={name}"), group))
    own = written(group, name)
    assert own
    assert holds(section, own)


@pytest.mark.parametrize(("group", "name"), [o for o in GROUPS if o[0] in ("model", "data")])
def test_models_and_data_are_named_after_their_files(group, name):
    assert getattr(composed(f"{group}={name}"), group).name == name


@pytest.mark.parametrize(("group", "name"), ACROSS)
def test_every_preset_across_groups_sets_what_it_says(group, name):
    settings = asdict(composed(f"{group}={name}"))
    for section, own in written(group, name).items():
        for key, value in own.items():
            assert settings[section][key] == value


@pytest.mark.parametrize("debug", [name for group, name in ACROSS if group == "debug"])
@pytest.mark.parametrize("group", ["model", "data", "optim", "tokenizer"])
def test_debugging_goes_with_every_model_corpus_and_schedule(debug, group):
    for name in [name for of, name in GROUPS if of == group]:
        composed(f"debug={debug}", f"{group}={name}")
    for name in [name for group, name in ACROSS if group == "experiment"]:
        composed(f"debug={debug}", f"experiment={name}")


def test_the_end_of_an_experiment_can_be_left_out():
    final = "+data.final_weights.short=9", "data.final_steps=9"
    assert composed("data=general", *final).data.final_steps == 9
    assert composed("data=starter", *final, "data.final_steps=0").data.final_steps == 0


@pytest.mark.parametrize("name", [name for group, name in GROUPS if group == "data"])
def test_evaluation_composes_with_every_corpus(name):
    settings = composed(f"data={name}", name="evaluate", model="runs/x")
    assert isinstance(settings, EvaluateConfig)
    assert (settings.model, settings.data.name, settings.split) == ("runs/x", name, "test")


def given(settings: EvaluateConfig) -> dict[str, Any]:
    """Search settings that are not those of the model."""
    return {key: value for key, value in asdict(settings.decode).items() if value is not None}


@pytest.mark.parametrize("name", [name for group, name in GROUPS if group == "decode"])
def test_evaluation_changes_the_search_settings_that_are_given(name):
    assert given(composed(name="evaluate", model="x")) == {}
    assert given(composed(f"decode={name}", name="evaluate", model="x")) == written("decode", name)
    changed = composed("decode=mbr", "decode.samples=4", name="evaluate", model="x")
    assert given(changed) == {**written("decode", "mbr"), "samples": 4}


@pytest.mark.parametrize(
    ("override", "why"),
    [
        ("decode.baem=4", r"there is no setting 'decode\.baem': did you mean 'decode\.beam'"),
        ("beam=4", r"there is no setting 'beam': did you mean 'decode\.beam'\?"),
        ("decode.beam=x", r"decode\.beam=x: Value 'x' .* Integer"),
        ("decode=greddy", r"decode=greddy is not known: did you mean 'greedy'"),
    ],
)
def test_search_settings_that_evaluation_does_not_know_are_refused_with_a_hint(override, why):
    with pytest.raises((HydraException, OmegaConfBaseException)) as error:
        compose("evaluate", [override])
    assert re.match(why, _explain(error.value, EvaluateConfig))


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("base", (512, 2048, 8, 6, 6, 0.1)),
        ("big", (1024, 4096, 16, 6, 6, 0.3)),
        ("big_enfr", (1024, 4096, 16, 6, 6, 0.1)),
    ],
)
def test_models_of_the_paper_have_its_sizes(name, sizes):
    """Table 3 of Vaswani et al. 2017; section 6.1 for English-French."""
    m = composed(f"model={name}").model
    assert (m.d_model, m.d_ff, m.n_heads, m.encoder_layers, m.decoder_layers, m.dropout) == sizes
    assert m.norm == "post"


def test_a_setting_that_members_of_a_mixture_lack_is_refused():
    why = r"there is no setting data\.members\.short\.weights: choose one of: .*'?hub'?"
    with pytest.raises(ConfigError, match=why) as error:
        composed("data=general", "+data.members.short.weights.x=9")
    assert len(error.value.problems) == 1


def test_the_command_line_wins_over_files():
    settings = composed("experiment=demo", "model.dropout=0.25", "tokenizer.vocab_size=999")
    assert (settings.model.dropout, settings.tokenizer.vocab_size) == (0.25, 999)
    assert settings.model.d_model == 128  # of model/tiny, which the demo is made of


def test_corpora_are_looked_up_in_the_clone_from_anywhere(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    members = composed("data=starter").data.members
    assert {member.path for member in members.values()} == {str(ROOT / "data" / "starter")}


def test_numbers_may_name_columns_and_lists_files():
    data = composed("data=files", "data.source_column=0", "data.train=[a.en,a.fr]").data
    assert data.source_column == "0"
    assert data.train == ["a.en", "a.fr"]


def test_ddp_takes_as_many_devices_as_torchrun_started(monkeypatch):
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    assert composed("trainer=ddp").trainer.devices == 4
    monkeypatch.delenv("LOCAL_WORLD_SIZE")
    assert composed("trainer=ddp").trainer.devices == 1


def test_settings_survive_being_written_and_read_again():
    settings = composed("experiment=demo")
    assert build(TrainConfig, asdict(settings)) == settings


def test_key_names_are_those_of_the_dataclasses():
    keys = set(keys_of(TrainConfig))
    assert {f"model.{field.name}" for field in fields(TransformerConfig)} <= keys
    assert {"seed", "resume", "trainer", "trainer.max_steps"} <= keys
    assert len(keys) == len(list(keys_of(TrainConfig)))


def test_values_that_rows_are_chosen_by_are_text():
    data = composed("data=files", "+data.where.year=[2019,true,0.25,x]").data
    assert data.where == {"year": ["2019", "True", "0.25", "x"]}


@pytest.mark.parametrize(
    ("override", "example"),
    [
        ("data.where.year=[2019]", "+data.where.COLUMN=[VALUE]"),
        ("data.where={year:[2019]}", "+data.where.COLUMN=[VALUE]"),
        ("data.variants.plain=0.1", "+data.variants.NAME=SHARE"),
        ("data.weights.a=2", "+data.weights.NAME=NUMBER"),
    ],
)
def test_names_of_ones_own_are_added_with_a_plus(override, example):
    assert f"names of your choice; add one with a plus: {example}" in explained(override)
    member = override.replace("data.", "data.members.phrases.")
    if "weights" not in override:
        assert example.replace("data.", "data.members.phrases.") in explained(member)


# Impossible values

MIXED: dict[str, Any] = {
    "train": None, "val": None, "test": None, "members": {"a": CorpusConfig()}
}  # fmt: skip
HEADINGS = {"heading": 0.1}


def test_members_may_take_the_folder_of_the_mixture():
    member = CorpusConfig(path="x")
    data = DataConfig(**{**MIXED, "members": {"a": member, "b": CorpusConfig()}}, path="x")
    assert data.members["a"].path == "x"
    data = composed("data=general", "data.path=/corpora/mine").data
    assert {data.members[name].path for name in ("tatoeba", "encyclopaedia")} == {"/corpora/mine"}
    assert data.members["tatoeba"].where == {"source": ["tatoeba"]}


@pytest.mark.parametrize(
    ("schema", "values", "text"),
    [
        (TransformerConfig, {"d_model": 100, "n_heads": 8}, r"d_model=100 .*n_heads=8.*multiple"),
        (TransformerConfig, {"d_model": 15, "n_heads": 5}, r"d_model=15 is odd: sinusoidal"),
        (
            TransformerConfig,
            {"d_model": 24, "n_heads": 8, "positions": "rotary"},
            r"head is 3 wide.*even",
        ),
        (TransformerConfig, {"n_kv_heads": 3}, r"n_kv_heads=3 does not divide model\.n_heads=8"),
        (TransformerConfig, {"n_kv_heads": 0}, r"n_kv_heads=0 does not divide"),
        (TransformerConfig, {"n_heads": 0}, r"n_heads=0 is too small: .* at least 1"),
        (TransformerConfig, {"head_dim": 0}, r"head_dim=0 is too small"),
        (TransformerConfig, {"head_dim": 7, "positions": "rotary"}, r"a head is 7 wide .*even"),
        (TransformerConfig, {"kernel": "spda"}, r"kernel=spda is not known: did you mean 'sdpa'"),
        (TransformerConfig, {"architecture": "rnn_attention"}, r"choose another one with model="),
        (RecurrentConfig, {"d_model": 15}, r"d_model=15 is odd: each direction of the encoder"),
        (RecurrentConfig, {"d_attention": 0}, r"d_attention=0 is too small"),
        (TransformerConfig, {"norm": "pree"}, r"norm=pree is not known: did you mean 'pre'"),
        (TransformerConfig, {"tie_embeddings": "x"}, r"tie_embeddings=x .*all, decoder, none"),
        (TransformerConfig, {"activation": "geluu"}, r"did you mean 'gelu'"),
        (TransformerConfig, {"dropout": 1.0}, r"dropout=1\.0 is no probability"),
        (TransformerConfig, {"dropout": float("nan")}, r"dropout=nan is no probability"),
        (TransformerConfig, {"max_length": 1}, r"max_length=1 is too small"),
        (DataConfig, {"max_tokens": 1}, r"data\.max_tokens=1 is too small"),
        (DataConfig, {"num_workers": -1}, r"data\.num_workers=-1 is too small"),
        (DataConfig, {"source_column": "fr"}, r"are both 'fr'.*name two columns"),
        (TokenizerConfig, {"vocab_size": 258}, r"vocab_size=258 .*at least 259"),
        (TokenizerConfig, {"kind": "bep"}, r"kind=bep is not known: did you mean 'bpe'"),
        (TokenizerConfig, {"kind": "byte"}, r"vocab_size=8000: .*kind=byte has 259 tokens"),
        (TokenizerConfig, {"kind": "unigram", "dropout": 0.1}, r"dropout=0\.1 leaves out merges"),
        (TokenizerConfig, {"symbols": ["<a>", " "]}, r"symbols: ' ' must be text"),
        (CleaningConfig, {"filters": ["emty"]}, r"filters=emty is not known: did you mean 'empty'"),
        (CleaningConfig, {"filters": ["duplicate", "empty"]}, r"duplicate must stand last"),
        (CleaningConfig, {"normalise": ["nfc", "nfc"]}, r"normalise names one of them twice"),
        (CleaningConfig, {"languages": ["en", "de"]}, r"languages=.* must be \[en,fr\]"),
        (CleaningConfig, {"max_ratio": 0.5}, r"max_ratio=0\.5 is too small"),
        (DataConfig, {"hub": "a/b", "urls": ["http://x/y"]}, r"data\.hub and data\.urls both"),
        (DataConfig, {"streaming": True, "num_workers": 2}, r"num_workers=2 does nothing with"),
        (DataConfig, {"members": {"a": CorpusConfig()}}, r"data\.train=train and data\.members"),
        (
            DataConfig,
            {"train": None, "val": None, "test": None, "members": {"a": {}}, "path": "x"},
            r"data\.path=x does nothing, since the members of data=files",
        ),
        (
            DataConfig,
            {**MIXED, "members": {"a": CorpusConfig(path="y")}, "path": "x"},
            r"data\.path=x does nothing.* or set data\.members\.NAME\.path",
        ),
        (DataConfig, {**MIXED, "where": {"a": ["b"]}}, r"data\.where=.* does nothing, since"),
        (DataConfig, {**MIXED, "variants": {"plain": 0.1}}, r"data\.members\.NAME\.variants"),
        (DataConfig, {"where": {"a": []}}, r"data\.where\.a=\[\] chooses no row"),
        (DataConfig, {"where": {"a": "web"}}, r"data\.where\.a=web is one text: give a list, \[w"),
        (DataConfig, {"where": {"a": ["b"]}, "hub": "x/y"}, r"data\.where .*this corpus has none"),
        (
            CorpusConfig,
            {"where": {"a": ["b"]}, "sacrebleu": True},
            r"data\.where chooses rows of files.* data\.path=FOLDER",
        ),
        (
            DataConfig,
            {"train": None, "members": {"a": {"where": {"b": ["c"]}, "hub": "x/y"}}},
            r"data\.members\.a\.where chooses rows of files",
        ),
        (DataConfig, {"variants": {"plian": 0.1}}, r"data\.variants=plian .*did you mean 'plain'"),
        (DataConfig, {"variants": {"plain": 1.1}}, r"data\.variants\.plain=1\.1 is a share"),
        (DataConfig, {"variants": {"plain": float("nan")}}, r"variants\.plain=nan is a share"),
        (
            TrainConfig,
            {
                "data": DataConfig(variants={"heading": 0.1}),
                "cleaning": CleaningConfig(languages=["fr", "en"]),
            },
            r"data\.variants\.heading writes the source as English .*heading=0",
        ),
        (
            PrepareConfig,
            {
                "data": DataConfig(train=None, members={"a": CorpusConfig(variants=HEADINGS)}),
                "cleaning": CleaningConfig(languages=["fr", "en"]),
            },
            r"set data\.members\.a\.variants\.heading=0",
        ),
        (OptimConfig, {"optimizer": "moun"}, r"optim\.optimizer=moun .*did you mean 'muon'"),
        (
            TrainConfig,
            {
                "optim": OptimConfig(optimizer="muon"),
                "trainer": TrainerConfig(strategy="fsdp", devices=2),
            },
            r"muon makes whole matrices orthogonal, .*fsdp.* use trainer\.strategy=ddp",
        ),
        (DataConfig, {"temperature": 5}, r"temperature=5 weighs the members of a mixture"),
        (DataConfig, {"streaming": True, "longest_first": True}, r"longest_first=true needs all"),
        (TokenizerConfig, {"symbols": ["<a>", "<a>"]}, r"symbols names one of them twice"),
        (TrainConfig, {"data": DataConfig(length_multiple=7)}, r"length_multiple=7 would pad"),
        (DataConfig, {"weights": {"a": 2}}, r"data\.weights\.a weighs no member"),
        (
            DataConfig,
            {"final_weights": {"a": 2}, "final_steps": 9},
            r"data\.final_weights\.a weighs no member",
        ),
        (
            DataConfig,
            {**MIXED, "final_weights": {"a": -1}, "final_steps": 9},
            r"data\.final_weights\.a=-1 is how often each pair is seen",
        ),
        (DataConfig, {**MIXED, "final_weights": {"a": 2}}, r"say in how many, such as"),
        (DataConfig, {"final_steps": 9}, r"final_steps=9 does nothing without other weights"),
        (DataConfig, {"final_steps": -1}, r"data\.final_steps=-1 is too small"),
        (
            DataConfig,
            {**MIXED, "final_weights": {"a": 2}, "final_steps": 9, "streaming": True},
            r"final_steps=9 does not go with data\.streaming=true",
        ),
        (
            TrainConfig,
            {
                "data": DataConfig(**MIXED, final_weights={"a": 3}, final_steps=9),
                "trainer": TrainerConfig(max_steps=9),
                "optim": OptimConfig(warmup_steps=1),
            },
            r"final_steps=9 leaves nothing of trainer\.max_steps=9",
        ),
        (
            DataConfig,
            {"train": None, "members": {"a": CorpusConfig()}, "weights": {"a": 0}},
            r"data\.weights\.a=0 is how often each pair is seen",
        ),
        (
            DataConfig,
            {
                "train": None,
                "members": {"a": CorpusConfig()},
                "weights": {"a": 2},
                "temperature": 5,
            },
            r"weights and data\.temperature both decide",
        ),
        (
            DataConfig,
            {"train": None, "members": {"a": {"source_column": "x", "target_column": "x"}}},
            r"data\.members\.a\.source_column and data\.members\.a\.target_column are both",
        ),
        (PrepareConfig, {"tasks": 2, "task": 2}, r"task=2 does not exist: tasks=2 are counted"),
        (PrepareConfig, {"data": DataConfig(streaming=True)}, r"needs no preparation"),
        (OptimConfig, {"lr": 0.0}, r"optim\.lr=0\.0 would not learn.*or null"),
        (OptimConfig, {"lr": float("nan")}, r"optim\.lr=nan would not learn"),
        (OptimConfig, {"warmup_steps": 0}, r"optim\.warmup_steps=0 is no length"),
        (OptimConfig, {"label_smoothing": 1.0}, r"optim\.label_smoothing=1\.0 is no probability"),
        (DecodeConfig, {"beam": 2, "n_best": 3}, r"n_best=3 needs as many hypotheses .*beam=2"),
        (DecodeConfig, {"n_best": 0}, r"decode\.n_best=0 is too small"),
        (DecodeConfig, {"length_penalty": -1}, r"decode\.length_penalty=-1 is too small"),
        (TrainerConfig, {"max_steps": 0}, r"trainer\.max_steps=0 is no length"),
        (TrainerConfig, {"precision": "bf16"}, r"precision=bf16 is not known.* bf16-mixed"),
        (TrainerConfig, {"accelerator": "tpu"}, r"accelerator=tpu is not known.*'gpu'"),
        (TrainerConfig, {"gradient_clip": float("nan")}, r"gradient_clip=nan"),
        (CheckpointConfig, {"every_n_steps": 0}, r"checkpoint\.every_n_steps=0 is too small"),
        (LoggerConfig, {"kind": "wandbb"}, r"logger\.kind=wandbb is not known.*'wandb'"),
        (EvaluateConfig, {"model": "x", "split": "tset"}, r"split=tset is not known.*'test'"),
        (EvaluateConfig, {"model": "x", "device": "tpu"}, r"device=tpu is not known"),
        (EvaluateConfig, {}, r"model= is missing.*model=runs/demo"),
        (TrainConfig, {"seed": -1}, r"seed=-1 is too small"),
        (OptimConfig, {"schedule": "wsdd"}, r"optim\.schedule=wsdd is not known.*'wsd'"),
        (OptimConfig, {"decay_steps": 10}, r"decay_steps=10 belongs to optim\.schedule=wsd"),
        (OptimConfig, {"final_lr": 0.1}, r"final_lr=0\.1 belongs to optim\.schedule=cosine"),
        (OptimConfig, {"ema": 1.0}, r"optim\.ema=1\.0 is no probability"),
        (
            TrainConfig,
            {"optim": OptimConfig(schedule="cosine", warmup_steps=10000)},
            r"warmup_steps=10000 leaves nothing of trainer\.max_steps=10000 for .*cosine",
        ),
        (
            TrainConfig,
            {"optim": OptimConfig(schedule="wsd", decay_steps=6001)},
            r"wsd needs 4000 steps of warm-up and 6001 of decay, .*max_steps=10000 cannot hold",
        ),
        (
            TrainConfig,
            {"optim": OptimConfig(schedule="wsd", warmup_steps=8001)},
            r"wsd needs 8001 steps of warm-up and 2000 of decay",
        ),
        (
            TrainConfig,
            {
                "data": DataConfig(streaming=True),
                "trainer": TrainerConfig(max_steps="3epochs"),
            },
            r"trainer\.max_steps=3epochs: with data\.streaming=true nobody knows how long",
        ),
        (
            TrainConfig,
            {"optim": OptimConfig(ema=0.9), "trainer": TrainerConfig(strategy="fsdp", devices=2)},
            r"optim\.ema needs whole weights.* use trainer\.strategy=ddp",
        ),
        (CheckpointConfig, {"average": 1}, r"checkpoint\.average=1 averages nothing"),
        (CheckpointConfig, {"average_by": "bets"}, r"average_by=bets is not known.*'best'"),
        (AverageConfig, {"output": "x"}, r"Give either run=FOLDER"),
        (AverageConfig, {"output": "x", "inputs": ["a"]}, r"inputs=\[a\] is one model only"),
        (AverageConfig, {"run": "x"}, r"output= is missing"),
        (AverageConfig, {"run": "x", "output": "y", "average": 1}, r"average=1 is too small"),
    ],
)
def test_an_impossible_value_is_refused_with_its_reason(schema, values, text):
    with pytest.raises(ConfigError, match=text) as error:
        schema(**values)
    assert len(error.value.problems) == 1


def test_a_batch_must_hold_the_longest_sentence():
    with pytest.raises(ConfigError, match=r"data\.max_tokens=199 .*model\.max_length=100"):
        TrainConfig(model=TransformerConfig(max_length=100), data=DataConfig(max_tokens=199))
    TrainConfig(model=TransformerConfig(max_length=100), data=DataConfig(max_tokens=200))


def test_problems_of_all_sections_are_reported_together():
    with pytest.raises(ConfigError) as error:
        composed("model.norm=x", "model.dropout=2", "optim.lr=-1", "trainer.max_steps=0")
    text = str(error.value)
    assert text.startswith("4 settings cannot work:")
    for name in ("model.norm=x", "model.dropout=2", "optim.lr=-1", "trainer.max_steps=0"):
        assert f"\n  - {name}" in text


def test_problems_of_the_whole_are_reported_with_those_of_sections():
    with pytest.raises(ConfigError, match=r"(?s)model\.norm=x.*seed=-1"):
        composed("model.norm=x", "seed=-1")


# Misspelt names, in process


@pytest.mark.parametrize(
    ("group", "name"), [o for o in GROUPS if o[1] not in ("cpu", "gpu", "csv")]
)
def test_a_misspelt_option_names_the_right_one(group, name):
    text = explained(f"{group}={name}x")
    assert f"{group}={name}x is not known: did you mean " in text
    assert f"'{name}'" in text


@pytest.mark.parametrize("key", sorted(k for k in keys_of(TrainConfig) if "." in k)[::5])
def test_a_misspelt_key_names_the_right_one(key):
    text = explained(f"{key}x=1")
    assert f"no setting '{key}x': did you mean '{key}'" in text


def test_a_setting_of_another_kind_of_model_is_no_setting_of_this_one():
    text = explained("model=rnn_attention", "model.n_heads=2")
    assert text.startswith("model.n_heads is no setting of this kind of model: leave it out")
    text = explained("model=tiny", "model.d_attention=2")
    assert text.startswith("model.d_attention is no setting of this kind of model")


def test_a_preset_without_a_kind_of_model_is_told_how_to_begin(monkeypatch):
    ConfigStore.instance().store(group="model", name="plain", node={"name": "plain", "n_heads": 2})
    assert "begin it with the lines 'defaults:' and '  - base'" in explained("model=plain")


def test_presets_may_build_on_each_other():
    grouped = composed("model=base_gqa").model
    assert (grouped.n_heads, grouped.n_kv_heads, grouped.d_model) == (8, 2, 512)
    assert isinstance(composed("model=rnn_attention").model, RecurrentConfig)


# The real command: what is wrong stands in one line on stderr


ABSENT = "data.members.composed.path=/nonexistent"


def train(
    *overrides: str, cwd: Any, before: tuple[str, ...] = (ABSENT,)
) -> subprocess.CompletedProcess[str]:
    # Were a mistake not noticed, the missing corpus would still keep training from starting.
    command = [sys.executable, str(ROOT / "scripts" / "train.py"), *before]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "WANDB_MODE": "disabled"}
    return subprocess.run(
        [*command, *overrides],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.mark.parametrize(
    ("overrides", "code", "useful"),
    [
        (["model=bsae"], 2, "model=bsae is not known: did you mean 'base'?"),
        (["model.d_modle=3"], 2, "no setting 'model.d_modle': did you mean 'model.d_model'"),
        (["trainer.max_steps=abc"], 2, "trainer.max_steps=abc is no length: give a number"),
        (["trainer.max_steps"], 2, "cannot read 'trainer.max_steps': settings are given as name="),
        (["model=rnn_attention", "model.n_heads=2"], 2, "model.n_heads is no setting of this kind"),
        (["model.architecture=rnn_attention"], 2, "rnn_attention belongs to the preset"),
        (["model=rnn_attention", "+model.n_heads=4"], 2, "no setting model.n_heads: choose one"),
        (["foo"], 2, "cannot read 'foo': settings are given as name=value"),
        (["model.d_model=100", "model.n_heads=8"], 2, "make d_model a multiple of n_heads"),
        (["resume=/nonexistent"], 1, "resume=/nonexistent: no run is there"),
    ],
)
def test_a_mistake_on_the_command_line_is_one_plain_message(overrides, code, useful, tmp_path):
    result = train(*overrides, cwd=tmp_path)
    assert result.returncode == code
    assert result.stderr.startswith("error: ")
    assert useful in result.stderr
    assert "Traceback" not in result.stderr
    assert not any(tmp_path.iterdir())


def test_a_copy_of_the_package_without_its_settings_says_how_to_install_it(tmp_path):
    """As `pip install .` makes it, without -e; the scripts run from the clone all the same."""
    weights = shutil.ignore_patterns("*.safetensors")
    shutil.copytree(ROOT / "seq2seq", tmp_path / "seq2seq", ignore=weights)
    result = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "train.py")],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert result.returncode == 1
    assert result.stderr.startswith(f"error: the package in {tmp_path} is a copy without configs/")
    assert result.stderr.endswith("pip install -e .\n")


def test_resuming_refuses_what_may_not_change(tmp_path):
    (tmp_path / "config.yaml").write_text("seed: 3\n")
    result = train("data.train=x", f"resume={tmp_path}", before=(), cwd=tmp_path)
    assert result.returncode == 1
    assert "data.train cannot change (only trainer.*, checkpoint.*, logger.*, data.path, " in (
        result.stderr
    )


@pytest.mark.parametrize(
    ("override", "useful"),
    [
        ("dry_run=true", "dry_run= says what a new one would take: give one of them"),
        ("debug=overfit", "debug= chooses a short run of its own: give one of them"),
        ("trainer=cpu", "give only those that shall change, each as trainer.NAME=VALUE"),
    ],
)
def test_what_makes_no_sense_for_a_run_that_goes_on_is_said(override, useful, tmp_path):
    (tmp_path / "config.yaml").write_text("seed: 3\n")
    result = train(override, f"resume={tmp_path}", before=(), cwd=tmp_path)
    assert result.returncode == 1
    assert result.stderr.startswith(f"error: resume={tmp_path} ")
    assert useful in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_resuming_a_kind_of_model_that_is_not_known_names_the_known_ones(tmp_path):
    (tmp_path / "config.yaml").write_text("model:\n  architecture: rnn_atention\n")
    command = [sys.executable, str(ROOT / "scripts" / "train.py"), f"resume={tmp_path}"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert result.returncode == 1
    assert "architecture=rnn_atention is not known: did you mean 'rnn_attention'" in result.stderr


@pytest.mark.parametrize("override", ["model=null", "+model.x=3"])
def test_odd_overrides_are_plain_messages_too(override, tmp_path):
    result = train(override, cwd=tmp_path)
    assert result.returncode == 2
    assert "Traceback" not in result.stderr
