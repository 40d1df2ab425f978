"""Precisions of translation: what they change, and what a device lacks."""

import pytest
import torch
from tiny import random_ids, tiny_recurrent, tiny_transformer
from tiny_bundle import tiny_bundle
from torch.testing import assert_close

from seq2seq.data.tokenizer import BOS, PAD
from seq2seq.decoding.step import ModelStep
from seq2seq.errors import UserError
from seq2seq.inference.engines import torch as module
from seq2seq.inference.engines.torch import (
    INSTRUCTIONS,
    cast_for_inference,
    choose_precision,
    cpu_has,
)
from seq2seq.inference.translator import Translator
from seq2seq.model.optimize import PackedLinear

SOURCE = random_ids(0, 2, 6)
SOURCE[1, 4:] = PAD
# Half of the last bit kept, grown over the layers.
CLOSE = {"bfloat16": 0.15, "float16": 0.02}
no_bf16 = pytest.mark.skipif(
    not torch.ops.mkldnn._is_mkldnn_bf16_supported(), reason="this processor has no bfloat16"
)
reduced = pytest.mark.parametrize(
    "precision", [pytest.param("bfloat16", marks=no_bf16), "float16"]
)
models = pytest.mark.parametrize(
    "make",
    [tiny_transformer, lambda: tiny_transformer(tie_embeddings="none", norm="pre"), tiny_recurrent],
)


@torch.inference_mode()
def log_probs_of(model, tokens=(BOS, 5, 7)):
    """Of a few steps, as a search takes them (steps, 2, V)."""
    step = ModelStep(model)
    state = step.start(SOURCE)
    return torch.stack([step.step(torch.tensor([token] * 2), state) for token in tokens])


@pytest.fixture(autouse=True)
def all_instructions(monkeypatch):
    """Without them it works, too: only slower."""
    monkeypatch.setattr(module, "cpu_has", lambda name: True)


@models
def test_float32_only_packs_the_matrices(make):
    model = make()
    expected = log_probs_of(model)
    assert_close(log_probs_of(cast_for_inference(model, "float32")), expected, atol=1e-5, rtol=1e-5)
    assert isinstance(model.output, PackedLinear)


def test_without_onednn_layers_stay_as_they_are(monkeypatch):
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    assert type(cast_for_inference(tiny_transformer(), "float32").output) is torch.nn.Linear


@reduced
@models
def test_a_lower_precision_comes_near(make, precision):
    expected = log_probs_of(make())
    found = log_probs_of(cast_for_inference(make(), precision))
    assert found.dtype == torch.float32  # of log probabilities, whatever makes them
    assert (found - expected).abs().max() < CLOSE[precision]
    assert not torch.equal(found, expected)


def test_auto_is_exact_on_a_cpu():
    assert choose_precision("auto", torch.device("cpu")) == "float32"


@pytest.mark.parametrize("has_bf16", [True, False])
def test_auto_is_half_precision_on_a_gpu(has_bf16, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: has_bf16)
    gpu = torch.device("cuda")
    assert choose_precision("auto", gpu) == ("bfloat16" if has_bf16 else "float16")
    assert choose_precision("float32", gpu) == "float32"
    if not has_bf16:
        with pytest.raises(UserError, match=r"bfloat16: cuda has no arithmetic.*use float16"):
            choose_precision("bfloat16", gpu)


@reduced
def test_a_cpu_without_instructions_is_not_slowed_down(precision, monkeypatch):
    monkeypatch.setattr(module, "cpu_has", cpu_has)
    for name in INSTRUCTIONS[precision]:
        monkeypatch.setattr(torch.cpu, name, lambda: False, raising=False)
    with pytest.raises(UserError, match=rf"precision {precision} would be slower than float32"):
        choose_precision(precision, torch.device("cpu"))


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_int8_is_one_of_the_other_engine(device):
    with pytest.raises(UserError, match=r"precision int8 is one of the other engine: add --engin"):
        choose_precision("int8", torch.device(device))


def test_an_unknown_precision_is_refused_with_the_near_ones():
    with pytest.raises(UserError, match=r"precision float23 is not known: did you mean 'float32"):
        choose_precision("float23", torch.device("cpu"))


@reduced
def test_a_translator_takes_a_precision(tmp_path, precision):
    tiny_bundle().save(tmp_path / "bundle")
    pairs = [("the old house", "la maison"), ("a man reads", "un homme lit")]
    exact, other = (
        Translator.load(tmp_path / "bundle", "cpu", precision=name) for name in ("auto", precision)
    )
    for one, two in zip(exact.score(pairs), other.score(pairs), strict=True):
        assert one.log_prob != two.log_prob
        assert one.per_token == pytest.approx(two.per_token, abs=CLOSE[precision])
    assert all(found.text for found in other.translate([source for source, _ in pairs]))
