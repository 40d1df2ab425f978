"""A step model gives what the whole model gives, optimised or not, whatever the search does."""

import pytest
import torch
from naive_search import RerunStep
from step_walk import EVEN, PADDED, assert_same_walk
from tiny import random_ids, tiny_transformer

from seq2seq.config import DecodeConfig
from seq2seq.decoding.request import Request
from seq2seq.decoding.search import search
from seq2seq.decoding.step import ModelStep
from seq2seq.inference.engines.torch import cast_for_inference

KINDS = pytest.mark.parametrize(
    "kind", [{}, {"n_kv_heads": 1}, {"n_kv_heads": 2, "positions": "rotary"}], ids=str
)


@torch.inference_mode()
@pytest.mark.parametrize("source_BS", [PADDED, EVEN], ids=["padded", "even"])
@KINDS
def test_steps_are_those_of_the_whole_model_after_any_reordering(kind, source_BS):
    model = tiny_transformer(**kind)
    assert_same_walk(RerunStep(model), ModelStep(model), source_BS)


@KINDS
def test_packed_weights_change_nothing(kind):
    requests = [Request(random_ids(i, 1 + 3 * i % 20).tolist()) for i in range(48)]
    model = tiny_transformer(**kind)
    with torch.no_grad():
        model.output.weight *= 3  # so that outputs differ
    config = DecodeConfig(beam=2, min_length=3, batch_tokens=10**6)
    with torch.inference_mode():
        expected = search(RerunStep(model), requests, config, max_length=24)
    for step in (ModelStep(model), ModelStep(cast_for_inference(model, "float32"))):
        found = search(step, requests, config, max_length=24)
        for own, others in zip(found, expected, strict=True):
            assert [one.tokens for one in own] == [one.tokens for one in others]
            assert own[0].token_log_probs == pytest.approx(others[0].token_log_probs, abs=1e-5)
