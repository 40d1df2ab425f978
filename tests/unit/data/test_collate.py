"""Decoder inputs and labels stand one place apart, and padding is nothing but padding."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from seq2seq.data.collate import collate, collate_source, pad
from seq2seq.data.tokenizer import BOS, EOS, PAD

SENTENCE = st.lists(st.integers(3, 99), max_size=7)
PAIRS = st.lists(st.tuples(SENTENCE, SENTENCE), min_size=1, max_size=6)


def test_three_tokens():
    batch = collate([[5, 6, 7]], [[8, 9, 10]])
    assert batch.source.tolist() == [[5, 6, 7, EOS]]
    assert batch.target_in.tolist() == [[BOS, 8, 9, 10]]
    assert batch.labels.tolist() == [[8, 9, 10, EOS]]
    assert (batch.source_tokens, batch.target_tokens) == (4, 4)


def test_short_rows_are_padded_at_the_end():
    batch = collate([[5], [6, 7, 8]], [[9, 10], []])
    assert batch.source.tolist() == [[5, EOS, PAD, PAD], [6, 7, 8, EOS]]
    assert batch.target_in.tolist() == [[BOS, 9, 10], [BOS, PAD, PAD]]
    assert batch.labels.tolist() == [[9, 10, EOS], [EOS, PAD, PAD]]
    assert batch.source_real.tolist() == [[True, True, False, False], [True] * 4]


@settings(max_examples=100, deadline=None, database=None)
@given(PAIRS)
def test_rows_without_padding_are_the_sentences(pairs):
    sources, targets = [list(side) for side in zip(*pairs, strict=True)]
    batch = collate(sources, targets)
    rows = zip(batch.source.tolist(), batch.target_in.tolist(), batch.labels.tolist(), strict=True)
    for (source, target), found in zip(pairs, rows, strict=True):
        real = [[token for token in row if token != PAD] for row in found]
        assert real == [[*source, EOS], [BOS, *target], [*target, EOS]]


@settings(max_examples=100, deadline=None, database=None)
@given(PAIRS)
def test_token_counts_are_those_of_the_tensors(pairs):
    batch = collate([pair[0] for pair in pairs], [pair[1] for pair in pairs])
    assert batch.source_tokens == int((batch.source != PAD).sum()) == int(batch.source_real.sum())
    assert batch.target_tokens == int((batch.labels != PAD).sum())
    assert batch.target_in.shape == batch.labels.shape


def test_the_source_alone_is_the_source_of_a_batch():
    sources = [[5, 6], [7]]
    assert torch.equal(collate_source(sources), collate(sources, [[8], [9]]).source)


@pytest.mark.parametrize(("multiple", "width"), [(1, 17), (0, 18), (8, 24)])
def test_lengths_are_rounded_up(multiple, width):
    ids = list(range(5, 21))  # and an end mark
    batch = collate([ids], [ids], multiple)
    for tensor in (batch.source, batch.target_in, batch.labels):
        assert tensor.shape == (1, width)
    assert batch.labels.tolist() == [[*ids, EOS] + [PAD] * (width - 17)]


def test_padding_is_as_wide_as_the_longest():
    assert pad([[1], [1, 2, 3], []]).tolist() == [[1, PAD, PAD], [1, 2, 3], [PAD] * 3]
    assert pad([[1]]).dtype == torch.long


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_a_batch_moves_whole(device):
    batch = collate([[5]], [[6, 7]])
    moved = batch.to(torch.device(device))
    tensors = (moved.source, moved.target_in, moved.labels)
    assert {tensor.device.type for tensor in tensors} == {device}
    assert (moved.source_tokens, moved.target_tokens) == (2, 3)
