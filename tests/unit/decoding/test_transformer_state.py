"""What a stripped decoder remembers: steps after reorderings, and where its memory lies."""

import pytest
import torch
from step_walk import EVEN, PADDED, assert_same_walk
from tiny import tiny_recurrent, tiny_transformer

from seq2seq.data.tokenizer import BOS
from seq2seq.decoding.step import ModelStep
from seq2seq.decoding.transformer_step import TransformerStep, ModelStep


@torch.inference_mode()
@pytest.mark.parametrize("source_BS", [PADDED, EVEN], ids=["padded", "even"])
@pytest.mark.parametrize("kind", [{}, {"n_kv_heads": 2, "positions": "rotary"}], ids=str)
def test_log_probabilities_are_those_of_the_whole_decoder_after_any_reordering(kind, source_BS):
    model = tiny_transformer(**kind)
    assert_same_walk(ModelStep(model), TransformerStep(model), source_BS)


@torch.inference_mode()
def test_hypotheses_of_a_sentence_share_its_keys_and_values():
    state = TransformerStep(tiny_transformer()).start(PADDED)
    before = [part.data_ptr() for layer in state.cross for part in layer]
    state.reorder(torch.arange(3).repeat_interleave(5))
    assert [part.data_ptr() for layer in state.cross for part in layer] == before
    assert {part.size(0) for layer in state.cross for part in layer} == {3}


@torch.inference_mode()
def test_a_reordering_takes_no_fresh_memory_while_the_number_of_hypotheses_stays():
    step = TransformerStep(tiny_transformer())
    state, places = step.start(PADDED), set()
    for _ in range(6):
        step.step(torch.full((3,), BOS), state)
        state.reorder(torch.tensor([2, 1, 0]))
        places.add(state.past.data_ptr())
    assert len(places) == 2


def test_other_models_take_the_general_way():
    assert isinstance(ModelStep(tiny_recurrent()), ModelStep)
    assert isinstance(ModelStep(tiny_transformer(kernel="reference")), ModelStep)
