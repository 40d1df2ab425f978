import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from naive_attention import additive_by_loops
from naive_recurrent import annotations_by_loops, hidden_by_loops
from tiny import random_ids, real_positions, shake, tiny_recurrent
from torch.testing import assert_close

from seq2seq.data.collate import collate_source
from seq2seq.data.tokenizer import BOS, EOS, PAD
from seq2seq.model.recurrent import AdditiveAttention, RecurrentModel

CLOSE = {"rtol": 0, "atol": 1e-12}
SOURCE, SOURCE_REAL, TARGET = random_ids(1, 3, 6), real_positions([6, 4, 1]), random_ids(2, 3, 7)
TIES = pytest.mark.parametrize("tie", ["none", "decoder", "all"])
LAYERS = pytest.mark.parametrize("layers", [1, 2])


def model_of(seed: int = 0, **changes) -> RecurrentModel:
    return tiny_recurrent(seed, **changes).double()


def additive(seed: int = 0) -> AdditiveAttention:
    torch.manual_seed(seed)
    attention = AdditiveAttention(4, 6, 5).double()
    shake(attention, seed)
    return attention


# Additive attention


@settings(max_examples=25, deadline=None)
@given(
    queries=st.integers(1, 3),
    keys=st.integers(1, 4),
    shape=st.sampled_from(["none", "padding", "full"]),
    seed=st.integers(0, 99),
)
def test_additive_attention_is_the_loops_under_any_mask(queries, keys, shape, seed):
    attention, rng = additive(seed), np.random.default_rng(seed)
    states, annotations = rng.normal(size=(2, queries, 4)), rng.normal(size=(2, keys, 6))
    rows = {"none": 0, "padding": 1, "full": queries}[shape]
    allowed = rng.random((2, rows, keys)) < 0.6 if rows else None
    arrays = (
        attention.state_proj.weight.T,
        attention.source_proj.weight.T,
        attention.source_proj.bias,
        attention.score.weight[0],
    )
    expected = additive_by_loops(
        states,
        annotations,
        *(array.detach().numpy() for array in arrays),
        None if allowed is None else np.broadcast_to(allowed, (2, queries, keys)),
    )
    given_mask = None if allowed is None else torch.from_numpy(allowed)
    read = torch.from_numpy(annotations)
    for keys_BSA in (None, attention.source_proj(read)):
        got = attention(torch.from_numpy(states), read, given_mask, keys_BSA)
        assert_close(got[0], torch.from_numpy(expected[0]), **CLOSE)
        assert_close(got[1], torch.from_numpy(expected[1]), **CLOSE)


def test_a_state_that_may_read_nothing_gets_zeros_and_clean_gradients():
    attention = additive()
    states, annotations = torch.randn(2, 3, 4).double(), torch.randn(2, 5, 6).double()
    states.requires_grad_()
    contexts, weights = attention(states, annotations, real_positions([0, 5])[:, None])
    assert (contexts[0] == 0).all()
    assert (weights[0] == 0).all()
    contexts.square().sum().backward()
    assert states.grad.isfinite().all()
    assert all(p.grad.isfinite().all() for p in attention.parameters())


# The whole model


@LAYERS
@TIES
def test_hidden_states_are_those_of_loops_over_one_sentence(tie, layers):
    model = model_of(encoder_layers=layers, tie_embeddings=tie)
    hidden = model(SOURCE, SOURCE_REAL, TARGET)
    for b in range(3):
        source = SOURCE[b, SOURCE_REAL[b]].tolist()
        expected = hidden_by_loops(model, source, TARGET[b].tolist())
        assert_close(hidden[b], torch.from_numpy(expected), **CLOSE)


@LAYERS
def test_annotations_have_read_the_words_on_both_sides(layers):
    model = model_of(encoder_layers=layers)
    state = model.start(SOURCE, SOURCE_REAL)
    for b in range(3):
        expected, _ = annotations_by_loops(model, SOURCE[b, SOURCE_REAL[b]].tolist())
        assert_close(state.annotations_BSD[b, SOURCE_REAL[b]], torch.from_numpy(expected), **CLOSE)
    for changed in (0, 5):
        other = SOURCE.clone()
        other[0, changed] = 3 + (other[0, changed] - 2) % 10
        assert other[0, changed] != SOURCE[0, changed]
        moved = model.start(other, SOURCE_REAL).annotations_BSD[0] - state.annotations_BSD[0]
        assert (moved.abs().amax(dim=-1) > 0).all()


@settings(max_examples=25, deadline=None)
@given(chunks=st.lists(st.integers(1, 4), min_size=1, max_size=5), seed=st.integers(0, 9))
def test_steps_in_any_chunks_are_the_whole(chunks, seed):
    model, target = model_of(seed), random_ids(seed, 3, sum(chunks))
    state = model.start(SOURCE, SOURCE_REAL)
    parts = [model.decode_step(part, state) for part in target.split(chunks, dim=1)]
    assert_close(torch.cat(parts, dim=1), model(SOURCE, SOURCE_REAL, target), **CLOSE)


@LAYERS
@settings(max_examples=15, deadline=None)
@given(more=st.integers(0, 4), seed=st.integers(0, 99))
def test_padding_of_the_source_changes_nothing(layers, more, seed):
    model = model_of(encoder_layers=layers)
    padded = torch.nn.functional.pad(SOURCE, (0, more))
    real = torch.nn.functional.pad(SOURCE_REAL, (0, more))
    padded[~real] = random_ids(seed, int((~real).sum()))
    expected = model(SOURCE, SOURCE_REAL, TARGET)
    assert_close(model(padded, real, TARGET), expected, **CLOSE)


@settings(max_examples=15, deadline=None)
@given(cut=st.integers(1, 6), seed=st.integers(0, 99))
def test_no_later_target_token_matters_and_every_earlier_one_does(cut, seed):
    model, other = model_of(), TARGET.clone()
    other[:, cut] = 3 + (other[:, cut] - 3 + 1 + seed % 9) % 10
    assert (other[:, cut] != TARGET[:, cut]).all()
    one, two = (model(SOURCE, SOURCE_REAL, target) for target in (TARGET, other))
    assert_close(one[:, :cut], two[:, :cut], **CLOSE)
    assert ((one - two)[:, cut:].abs().amax(dim=-1) > 0).all()


def test_every_source_word_matters():
    model = model_of()
    expected = model(SOURCE, SOURCE_REAL, TARGET)
    for s in range(6):
        other = SOURCE.clone()
        other[:, s] = 3 + (other[:, s] - 2) % 10
        moved = (model(other, SOURCE_REAL, TARGET) - expected).abs().amax(dim=-1)
        assert ((moved > 0).all(dim=-1) == SOURCE_REAL[:, s]).all()


def test_chosen_beams_go_on_as_if_they_had_always_been_alone():
    model = model_of()
    prefix, further = random_ids(3, 3, 2), random_ids(4, 6, 1)
    state = model.start(SOURCE, SOURCE_REAL)
    model.decode_step(prefix, state)
    state.reorder(torch.tensor([0, 0, 1, 1, 2, 2]))  # two beams of each sentence
    model.decode_step(further, state)
    sentences, rows = torch.tensor([0, 2]), torch.tensor([1, 0, 5, 5])
    state.keep(sentences, rows)
    last = random_ids(5, 4, 3)
    found = model.decode_step(last, state)
    for r, (row, sentence) in enumerate(zip(rows.tolist(), [0, 0, 2, 2], strict=True)):
        whole = torch.cat([prefix[sentence], further[row], last[r]])[None]
        one = slice(sentence, sentence + 1)
        alone = model(SOURCE[one], SOURCE_REAL[one], whole)
        assert_close(found[r], alone[0, -3:], **CLOSE)


def test_memory_does_not_grow_with_the_target():
    model = tiny_recurrent()
    state = model.start(SOURCE, SOURCE_REAL)
    expected = 4 * (3 * 6 * 8 + 3 * 6 * 6 + 3 * 8) + 3 * 6  # annotations, keys, states; mask
    assert state.bytes == expected
    model.decode_step(TARGET, state)
    assert state.bytes == expected


def test_tied_weights_are_one_tensor():
    tied = {}
    for tie in ("none", "decoder", "all"):
        model = tiny_recurrent(tie_embeddings=tie)
        source, target = model.source_tokens.weight, model.target_tokens.weight
        tied[tie] = (target is model.output.weight, source is target)
    assert tied == {"none": (False, False), "decoder": (True, False), "all": (True, True)}


@LAYERS
@TIES
def test_every_parameter_learns(tie, layers):
    model = model_of(encoder_layers=layers, tie_embeddings=tie)
    scores = model.project(model(SOURCE, SOURCE_REAL, TARGET))
    scores.log_softmax(dim=-1)[..., 3].sum().backward()
    still = [name for name, p in model.named_parameters() if not (p.grad.abs() > 0).any()]
    assert not still
    assert all(p.grad.isfinite().all() for p in model.parameters())


def test_recurrent_matrices_begin_orthogonal_gate_by_gate():
    torch.manual_seed(0)
    gates = {
        name: parameter.chunk(3)
        for name, parameter in model_of(encoder_layers=2).named_parameters()
        if "weight_hh" in name
    }
    assert len(gates) == 5  # two directions of two layers, and the decoder's cell
    for matrices in gates.values():
        for gate in matrices:
            identity = torch.eye(len(gate), dtype=torch.float64)
            assert_close(gate @ gate.T, identity, rtol=0, atol=1e-6)


def test_dropout_acts_in_training_only():
    torch.manual_seed(0)
    model, plain = model_of(dropout=0.4, encoder_layers=2), model_of(encoder_layers=2)
    expected = plain(SOURCE, SOURCE_REAL, TARGET)
    assert torch.equal(model(SOURCE, SOURCE_REAL, TARGET), expected)
    dropped = model.train()(SOURCE, SOURCE_REAL, TARGET)
    assert 0.2 < (dropped == 0).double().mean() < 0.6


def test_an_empty_sentence_is_its_end_mark_alone():
    model = model_of()
    source = collate_source([[], [3, 4]])
    assert source[0].tolist() == [EOS, PAD, PAD]
    hidden = model(source, source != PAD, torch.tensor([[BOS], [BOS]]))
    expected = hidden_by_loops(model, [EOS], [BOS])
    assert_close(hidden[0], torch.from_numpy(expected), **CLOSE)
