"""What a stripped decoder remembers: steps after reorderings, and where its memory lies."""

import pytest
import torch
from tiny import random_ids, tiny_recurrent, tiny_transformer

from seq2seq.data.tokenizer import BOS, PAD
from seq2seq.decoding.step import ModelStep
from seq2seq.decoding.transformer_step import TransformerStep, step_model

PADDED = random_ids(0, 3, 7)
PADDED[0, 4:] = PADDED[2, 1:] = PAD


@torch.inference_mode()
@pytest.mark.parametrize("source_BS", [PADDED, random_ids(0, 3, 7)], ids=["padded", "even"])
@pytest.mark.parametrize("kind", [{}, {"n_kv_heads": 2, "positions": "rotary"}], ids=str)
def test_log_probabilities_are_those_of_the_whole_decoder_after_any_reordering(kind, source_BS):
    model = tiny_transformer(**kind)
    steps = ModelStep(model), TransformerStep(model)
    states = [step.start(source_BS) for step in steps]
    draw = torch.Generator().manual_seed(0)
    tokens_R, sentences, beams = torch.full((3,), BOS), 3, 1
    for position in range(40):  # more than one block of positions
        expected, found = (
            step.step(tokens_R, state) for step, state in zip(steps, states, strict=True)
        )
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
        # One hypothesis of each sentence becomes four; each is a copy of any of its sentence.
        parents = torch.randint(beams, (sentences, 4), generator=draw)
        rows_BN, beams = parents + beams * torch.arange(sentences)[:, None], 4
        if position == 20:  # a sentence leaves, and the others change places
            kept = torch.tensor([2, 0])
            rows_BN, sentences = rows_BN[kept], 2
            for state in states:
                state.select(kept, rows_BN.flatten())
        else:
            for state in states:
                state.reorder(rows_BN.flatten())
        tokens_R = random_ids(position, sentences * beams)


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
    assert isinstance(step_model(tiny_recurrent()), ModelStep)
    assert isinstance(step_model(tiny_transformer(kernel="reference")), ModelStep)
