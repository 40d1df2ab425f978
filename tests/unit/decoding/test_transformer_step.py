"""The stripped decoder gives what the whole model gives, for every kind of transformer."""

from itertools import product

import pytest
import torch
from tiny import random_ids, tiny_transformer

from seq2seq.config import DecodeConfig
from seq2seq.decoding.request import Request
from seq2seq.decoding.search import search
from seq2seq.decoding.step import ModelStep
from seq2seq.decoding.transformer_step import TransformerStep, step_model

REQUESTS = [Request(random_ids(i, 1 + i % 6).tolist()) for i in range(8)]
KINDS = [
    {"positions": positions, "norm": norm, "activation": activation, **heads}
    for positions, norm, activation, heads in product(
        ("sinusoidal", "learned", "rotary"),
        ("pre", "post"),
        ("relu", "swiglu"),
        ({}, {"n_kv_heads": 1}, {"qk_norm": True, "head_dim": 6}),
    )
]


@pytest.mark.parametrize("beam", [1, 3])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: "-".join(map(str, kind.values())))
def test_it_is_the_whole_model_token_by_token(kind, beam):
    model = tiny_transformer(**kind)
    with torch.no_grad():
        model.output.weight *= 3  # so that outputs differ
    assert isinstance(step_model(model), TransformerStep)
    config = DecodeConfig(beam=beam, n_best=beam, min_length=3)
    found, expected = (
        search(step, REQUESTS, config, max_length=24)
        for step in (step_model(model), ModelStep(model))
    )
    for own, others in zip(found, expected, strict=True):
        assert [one.tokens for one in own] == [one.tokens for one in others]
        for one, other in zip(own, others, strict=True):
            assert one.token_log_probs == pytest.approx(other.token_log_probs, abs=1e-5)
