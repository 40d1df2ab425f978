"""The stripped decoder gives what the whole model gives, for every kind of transformer."""

from itertools import product

import pytest
import torch
from tiny import random_ids, tiny_transformer

from seq2seq.config import DecodeConfig
from seq2seq.decoding.request import Request
from seq2seq.decoding.search import search
from seq2seq.decoding.step import ModelStep
from seq2seq.decoding.transformer_step import (
    TOGETHER,
    TransformerStep,
    _of_like_length,
    ModelStep,
)
from seq2seq.inference.precision import prepared

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
    assert isinstance(ModelStep(model), TransformerStep)
    config = DecodeConfig(beam=beam, n_best=beam, min_length=3)
    found, expected = (
        search(step, REQUESTS, config, max_length=24)
        for step in (ModelStep(model), ModelStep(model))
    )
    for own, others in zip(found, expected, strict=True):
        assert [one.tokens for one in own] == [one.tokens for one in others]
        for one, other in zip(own, others, strict=True):
            assert one.token_log_probs == pytest.approx(other.token_log_probs, abs=1e-5)


@pytest.mark.parametrize("kind", [{}, {"n_kv_heads": 1}, {"positions": "rotary"}])
def test_packed_weights_and_sentences_encoded_by_length_change_nothing(kind):
    requests = [Request(random_ids(i, 1 + 3 * i % 20).tolist()) for i in range(3 * TOGETHER)]
    model = tiny_transformer(**kind)
    with torch.no_grad():
        model.output.weight *= 3
    config = DecodeConfig(beam=2, min_length=3, batch_tokens=10**6)
    expected = search(ModelStep(model), requests, config, max_length=24)
    for step in (ModelStep(model), ModelStep(prepared(model, "float32"))):
        found = search(step, requests, config, max_length=24)
        for own, others in zip(found, expected, strict=True):
            assert [one.tokens for one in own] == [one.tokens for one in others]
            assert own[0].token_log_probs == pytest.approx(others[0].token_log_probs, abs=1e-5)


def test_sentences_of_like_length_are_encoded_together():
    lengths = torch.tensor([3, 9] * TOGETHER)
    real = torch.arange(9) < lengths[:, None]
    rows, width = zip(*_of_like_length(real), strict=True)
    assert torch.cat(rows).sort().values.tolist() == list(range(2 * TOGETHER))
    assert width == (3, 9)
    assert lengths[rows[0]].tolist() == [3] * TOGETHER
    for whole in (real[:TOGETHER], torch.arange(9) < torch.tensor([8, 9] * TOGETHER)[:, None]):
        [(rows, width)] = _of_like_length(whole)  # too few, or too much alike
        assert (rows.tolist(), width) == (list(range(len(whole))), 9)
