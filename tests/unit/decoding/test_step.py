"""A step model gives what the whole model gives, optimised or not, whatever the search does."""

import pytest
import torch
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


class WholeModel:
    """The step model of the definition: each step runs the whole model on all tokens so far."""

    def __init__(self, model):
        self.model = model

    def start(self, source_BS):
        return WholeState(source_BS)

    def step(self, tokens_R, state):
        state.tokens_RT = torch.cat([state.tokens_RT, tokens_R[:, None]], dim=1)
        beams = len(tokens_R) // len(state.source_BS)
        source_RS = state.source_BS.repeat_interleave(beams, dim=0)
        hidden_RTD = self.model(source_RS, source_RS != 0, state.tokens_RT)
        return self.model.project(hidden_RTD[:, -1]).log_softmax(-1)


class WholeState:
    def __init__(self, source_BS):
        self.source_BS, self.tokens_RT = source_BS, source_BS[:, :0]

    def reorder(self, rows):
        self.tokens_RT = self.tokens_RT[rows]

    def keep(self, sentences, rows):
        self.source_BS, self.tokens_RT = self.source_BS[sentences], self.tokens_RT[rows]


@torch.inference_mode()
@pytest.mark.parametrize("source_BS", [PADDED, EVEN], ids=["padded", "even"])
@KINDS
def test_steps_are_those_of_the_whole_model_after_any_reordering(kind, source_BS):
    model = tiny_transformer(**kind)
    assert_same_walk(WholeModel(model), ModelStep(model), source_BS)


@KINDS
def test_packed_weights_change_nothing(kind):
    requests = [Request(random_ids(i, 1 + 3 * i % 20).tolist()) for i in range(48)]
    model = tiny_transformer(**kind)
    with torch.no_grad():
        model.output.weight *= 3  # so that outputs differ
    config = DecodeConfig(beam=2, min_length=3, batch_tokens=10**6)
    with torch.inference_mode():
        expected = search(WholeModel(model), requests, config, max_length=24)
    for step in (ModelStep(model), ModelStep(cast_for_inference(model, "float32"))):
        found = search(step, requests, config, max_length=24)
        for own, others in zip(found, expected, strict=True):
            assert [one.tokens for one in own] == [one.tokens for one in others]
            assert own[0].token_log_probs == pytest.approx(others[0].token_log_probs, abs=1e-5)
