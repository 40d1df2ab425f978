"""Impossible settings are refused, all in one message, with words that help."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest
from composing import SCHEMAS, composed

from seq2seq.config import (
    ARCHITECTURES,
    AverageConfig,
    CheckpointConfig,
    CleaningConfig,
    CorpusConfig,
    DataConfig,
    DecodeConfig,
    EvaluateConfig,
    OptimConfig,
    PrepareConfig,
    RecurrentConfig,
    TokenizerConfig,
    TrainConfig,
    TrainerConfig,
    TransformerConfig,
)
from seq2seq.config.checked import flat, groups_of
from seq2seq.errors import ConfigError

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
        (TransformerConfig, {"head_dim": 7, "positions": "rotary"}, r"a head is 7 wide .*even"),
        (TransformerConfig, {"kernel": "spda"}, r"kernel=spda is not known: did you mean 'sdpa'"),
        (TransformerConfig, {"architecture": "rnn_attention"}, r"choose another one with model="),
        (RecurrentConfig, {"d_model": 15}, r"d_model=15 is odd: each direction of the encoder"),
        (TransformerConfig, {"tie_embeddings": "x"}, r"tie_embeddings=x .*all, decoder, none"),
        (TransformerConfig, {"dropout": 1.0}, r"dropout=1\.0 is too large: it must be below 1"),
        (TransformerConfig, {"dropout": float("nan")}, r"dropout=nan is too small"),
        (DataConfig, {"source_column": "fr"}, r"are both 'fr'.*name two columns"),
        (TokenizerConfig, {"vocab_size": 258}, r"vocab_size=258 .*at least 259"),
        (TokenizerConfig, {"kind": "byte"}, r"vocab_size=8000: .*kind=byte has 259 tokens"),
        (
            TokenizerConfig,
            {"kind": "unigram", "dropout": 0.1},
            r"dropout=0\.1 does nothing without tokenizer\.kind=bpe: leave it out",
        ),
        (TokenizerConfig, {"symbols": ["<a>", " "]}, r"symbols: ' ' must be text"),
        (CleaningConfig, {"filters": ["emty"]}, r"filters=emty is not known: did you mean 'empty'"),
        (CleaningConfig, {"filters": ["duplicate", "empty"]}, r"duplicate must come last"),
        (CleaningConfig, {"normalise": ["nfc", "nfc"]}, r"normalise names one of them twice"),
        (CleaningConfig, {"languages": ["en", "en"]}, r"languages=.* must be two codes"),
        (DataConfig, {"hub": "a/b", "urls": ["http://x/y"]}, r"data\.hub and data\.urls all say"),
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
        (DataConfig, {"variants": {"plain": 1.1}}, r"data\.variants\.plain=1\.1 is too large"),
        (DataConfig, {"variants": {"plain": float("nan")}}, r"variants\.plain=nan is too small"),
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
        (
            TrainConfig,
            {
                "optim": OptimConfig(optimizer="muon"),
                "trainer": TrainerConfig(strategy="fsdp", devices=2),
            },
            r"optim\.optimizer=muon needs whole weights.* use trainer\.strategy=ddp, or "
            r"optim\.optimizer=adamw",
        ),
        (TrainerConfig, {"max_steps": None}, r"trainer\.max_steps=null is not a length: give one"),
        (OptimConfig, {"warmup_steps": None}, r"optim\.warmup_steps=null is not a length"),
        (DataConfig, {"temperature": 5}, r"temperature=5 does nothing without data\.members"),
        (TokenizerConfig, {"symbols": ["<a>", "<a>"]}, r"symbols names one of them twice"),
        (TrainConfig, {"data": DataConfig(length_multiple=7)}, r"length_multiple=7 would pad"),
        (
            TrainConfig,
            {"data": DataConfig(length_multiple=0), "model": TransformerConfig(max_length=100)},
            r"length_multiple=0 would pad .*=100: make the second a multiple of 8",
        ),
        (DataConfig, {"weights": {"a": 2}}, r"data\.weights\.a weighs no member"),
        (
            DataConfig,
            {"final_weights": {"a": 2}, "final_steps": 9},
            r"data\.final_weights\.a weighs no member",
        ),
        (
            DataConfig,
            {**MIXED, "final_weights": {"a": -1}, "final_steps": 9},
            r"data\.final_weights\.a=-1 is too small",
        ),
        (DataConfig, {**MIXED, "final_weights": {"a": 2}}, r"say in how many, such as"),
        (DataConfig, {"final_steps": 9}, r"final_steps=9 does nothing without other weights"),
        (DataConfig, {"final_steps": -1}, r"data\.final_steps=-1 is too small"),
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
            r"weights\.a=0 is too small: .* mix without it",
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
        (OptimConfig, {"lr": 0.0}, r"optim\.lr=0\.0 is too small: it must be above 0, or null"),
        (OptimConfig, {"lr": float("nan")}, r"optim\.lr=nan is too small"),
        (OptimConfig, {"warmup_steps": 0}, r"optim\.warmup_steps=0 is not a length"),
        (DecodeConfig, {"beam": 2, "n_best": 3}, r"n_best=3 needs as many hypotheses .*beam=2"),
        (TrainerConfig, {"max_steps": 0}, r"trainer\.max_steps=0 is not a length"),
        (TrainerConfig, {"precision": "bf16"}, r"precision=bf16 is not known.* bf16-mixed"),
        (TrainerConfig, {"gradient_clip": float("nan")}, r"gradient_clip=nan"),
        (
            TrainerConfig,
            {"strategy": "fsdp", "compile": True},
            r"trainer\.compile=true does not go with trainer\.strategy=fsdp",
        ),
        (EvaluateConfig, {"bundle": "x", "split": "tset"}, r"split=tset is not known.*'test'"),
        (EvaluateConfig, {"bundle": "x", "device": "tpu"}, r"device=tpu is not known"),
        (EvaluateConfig, {}, r"bundle= is missing.*bundle=runs/demo"),
        (OptimConfig, {"decay_steps": 10}, r"decay_steps=10 does nothing .*schedule=wsd"),
        (
            OptimConfig,
            {"final_lr_ratio": 0.1},
            r"ratio=0\.1 does nothing without optim\.schedule=cosine or wsd: leave it out",
        ),
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
            {"optim": OptimConfig(ema=0.9), "trainer": TrainerConfig(strategy="fsdp", devices=2)},
            r"optim\.ema=0\.9 needs whole weights.* use trainer\.strategy=ddp",
        ),
        (CheckpointConfig, {"average": 1}, r"checkpoint\.average=1 averages nothing"),
        (CheckpointConfig, {"average_by": "best"}, r"by=best does nothing without checkpoint\.av"),
        (TokenizerConfig, {"dropout_variants": 4}, r"variants=4 does nothing without tokenizer\."),
        (DataConfig, {"hub_revision": "v1"}, r"hub_revision=v1 does nothing without data\.hub"),
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


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -0.1, 1.0])
def test_a_share_is_a_number_from_0_to_below_1(value):
    with pytest.raises(ConfigError, match=rf"optim\.ema={value} is too (small|large): it must be"):
        OptimConfig(ema=value)
    OptimConfig(ema=0.0)


def test_a_bound_without_an_upper_end_still_needs_a_finite_number():
    with pytest.raises(ConfigError, match=r"optim\.lr=inf sets no limit: give a finite number"):
        OptimConfig(lr=float("inf"))


def test_each_item_of_a_list_is_checked():
    with pytest.raises(ConfigError) as error:
        CleaningConfig(filters=["emty", "damagd"])
    assert [problem.split(" is not known")[0] for problem in error.value.problems] == [
        "cleaning.filters=emty", "cleaning.filters=damagd"
    ]  # fmt: skip


@pytest.mark.parametrize("schema", SCHEMAS.values())
def test_every_setting_says_what_it_means(schema):
    for part in (schema, *groups_of(schema).values(), *ARCHITECTURES.values()):
        assert part.__doc__
        for one in fields(part):
            grouped = one.name in groups_of(part) or one.name == "architecture"
            assert grouped or one.metadata["meaning"]


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


def test_flat_settings_have_dotted_names_and_keep_empty_groups():
    nested = {"seed": 1, "data": {"path": None, "weights": {}, "where": {"en.x": ["a"]}}}
    assert flat(nested) == {
        "seed": 1, "data.path": None, "data.weights": {}, "data.where.en.x": ["a"]
    }  # fmt: skip
