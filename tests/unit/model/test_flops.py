"""Counted against torch's own counter, on batches without padding."""

from __future__ import annotations

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from seq2seq.config import RecurrentConfig, TransformerConfig
from seq2seq.model.build import build_model
from seq2seq.model.flops import training_flops

SENTENCES, SOURCE, TARGET, VOCABULARY = 3, 11, 7, 50
TRANSFORMERS = {
    "plain": {},
    "deep encoder, shallow decoder": {"encoder_layers": 4, "decoder_layers": 1},
    "grouped": {"n_kv_heads": 1},
    "wide heads": {"head_dim": 24, "n_kv_heads": 2},
    "gated": {"activation": "swiglu", "positions": "rotary"},
    "untied, post-norm": {"tie_embeddings": "none", "norm": "post", "positions": "learned"},
}


def counted(config) -> float:
    """Forward and backward, by torch."""
    torch.manual_seed(0)
    model = build_model(config, VOCABULARY)
    source = torch.randint(3, VOCABULARY, (SENTENCES, SOURCE))
    target = torch.randint(3, VOCABULARY, (SENTENCES, TARGET))
    with FlopCounterMode(display=False) as counter:
        hidden = model(source, torch.ones_like(source, dtype=torch.bool), target)
        model.project(hidden.flatten(0, 1)).sum().backward()
    return counter.get_total_flops()


def ours(config) -> float:
    sizes = (SENTENCES, SENTENCES * SOURCE, SENTENCES * TARGET)
    return training_flops(config, VOCABULARY, *sizes)


@pytest.mark.parametrize("settings", TRANSFORMERS.values(), ids=TRANSFORMERS.keys())
def test_a_transformer_costs_what_torch_counts(settings):
    sizes = {"d_model": 64, "n_heads": 4, "d_ff": 96, "encoder_layers": 2, "decoder_layers": 2}
    config = TransformerConfig(**{**sizes, "kernel": "reference", "dropout": 0, **settings})
    # The written-out kernel also computes the T (T - 1) / 2 scores that the causal mask hides.
    heads = config.n_heads * (config.head_dim or config.d_model // config.n_heads)
    hidden = SENTENCES * TARGET * (TARGET - 1) / 2
    masked = 3 * config.decoder_layers * 2 * 2 * heads * hidden
    assert ours(config) + masked == counted(config)


@pytest.mark.parametrize("layers", [1, 2])
def test_a_recurrent_model_costs_what_torch_counts(layers):
    config = RecurrentConfig(d_model=64, d_attention=48, encoder_layers=layers, dropout=0)
    # The first states are zeros that need no gradient, hence the small difference.
    assert ours(config) == pytest.approx(counted(config), rel=0.01)


def test_only_real_tokens_count():
    """Twice the sentences are twice the work, and longer ones cost more per token."""
    config = TransformerConfig(d_model=64, n_heads=4, d_ff=96)
    one = training_flops(config, VOCABULARY, 10, 100, 80)
    assert training_flops(config, VOCABULARY, 20, 200, 160) == 2 * one
    assert training_flops(config, VOCABULARY, 5, 100, 80) > one


def test_the_usual_formula_holds_for_the_base_model():
    """F = 6 (L_enc (4d² + 2d ff) S/T + L_dec (8d² + 2d ff) + d V) per target token, and attention
    12 d (L_enc S²/T + L_dec (T/2 + S)); it counts cross-attention's keys per target token."""
    d, ff, layers, vocabulary, length = 512, 2048, 6, 32000, 25
    matrices = layers * (4 * d * d + 2 * d * ff) + layers * (8 * d * d + 2 * d * ff)
    attention = 12 * d * layers * (length + length / 2 + length)
    expected = 6 * (matrices + d * vocabulary) + attention
    sizes = (10, 10 * length, 10 * length)
    per_token = training_flops(TransformerConfig(), vocabulary, *sizes) / sizes[-1]
    assert per_token == pytest.approx(expected, rel=2e-3)
