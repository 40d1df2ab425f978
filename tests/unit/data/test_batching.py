"""Batches: every sentence once, within the budget, in an order that the seed alone decides."""

from __future__ import annotations

from itertools import islice, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seq2seq.data.batching import TrainingBatches, token_batches

LENGTHS = st.lists(st.tuples(st.integers(1, 40), st.integers(1, 40)), max_size=60).map(
    lambda rows: np.array(rows, dtype=np.int64).reshape(-1, 2)
)
PROPERTY = settings(max_examples=150, deadline=None, database=None)


@pytest.fixture
def lengths() -> np.ndarray:
    return np.random.default_rng(0).integers(1, 30, (200, 2))


def flat(batches) -> list[int]:
    return [int(i) for batch in batches for i in batch]


def stream(lengths, count, *, seed=1, rank=0, world=1, start=0, max_tokens=100) -> list[list[int]]:
    batches = TrainingBatches(lengths, max_tokens, seed, rank, world)
    batches.start = start
    return list(islice(batches, count))


@PROPERTY
@given(LENGTHS, st.integers(1, 200))
def test_every_sentence_stands_in_one_batch(lengths, budget):
    assert sorted(flat(token_batches(lengths, budget))) == list(range(len(lengths)))


@PROPERTY
@given(LENGTHS, st.integers(1, 200))
def test_no_batch_breaks_the_budget_unless_it_is_one_sentence(lengths, budget):
    for batch in token_batches(lengths, budget):
        assert len(batch) == 1 or len(batch) * lengths[batch].max() <= budget


@PROPERTY
@given(LENGTHS, st.integers(1, 200), st.randoms(use_true_random=False))
def test_batches_go_from_short_to_long_in_any_order_of_ties(lengths, budget, random):
    order = np.array(random.sample(range(len(lengths)), len(lengths)), dtype=np.int64)
    longest = [int(lengths[i].max()) for i in flat(token_batches(lengths, budget, order))]
    assert longest == sorted(longest)


@PROPERTY
@given(LENGTHS, st.integers(1, 200))
def test_no_sentence_of_the_next_batch_would_have_fitted(lengths, budget):
    batches = token_batches(lengths, budget)
    for batch, following in pairwise(batches):
        assert (len(batch) + 1) * lengths[following[0]].max() > budget


def test_ties_stand_in_the_given_order():
    order = np.array([3, 0, 2, 1])
    assert flat(token_batches(np.full((4, 2), 5), 10, order)) == [3, 0, 2, 1]


@pytest.mark.parametrize("seed", [0, 1])
def test_little_padding_on_lengths_like_those_of_real_text(seed):
    rng = np.random.default_rng(seed)
    source = rng.lognormal(3, 0.5, 20_000).clip(2, 200)
    lengths = np.stack([source, (source * rng.lognormal(0.1, 0.1, 20_000)).clip(2, 250)], 1)
    lengths = lengths.astype(np.int64)
    rows = [lengths[batch] for batch in token_batches(lengths, 8000)]
    positions = sum(len(batch) * batch.max(axis=0).sum() for batch in rows)
    assert 1 - lengths.sum() / positions <= 0.10


def test_the_stream_depends_on_the_seed_alone(lengths):
    assert stream(lengths, 90) == stream(lengths, 90)
    assert stream(lengths, 90) != stream(lengths, 90, seed=2)


def test_epochs_differ_but_each_holds_every_pair_once(lengths):
    batches = TrainingBatches(lengths, 100, seed=1)
    epochs = [batches.epoch(number) for number in range(3)]
    for epoch in epochs:
        assert sorted(flat(epoch)) == list(range(200))
    assert len({tuple(flat(epoch)) for epoch in epochs}) == 3
    assert stream(lengths, sum(map(len, epochs))) == [b.tolist() for e in epochs for b in e]


def test_an_epoch_is_shuffled_and_not_sorted_by_length(lengths):
    longest = [lengths[batch].max() for batch in TrainingBatches(lengths, 100, seed=1).epoch(0)]
    assert longest != sorted(longest)


@pytest.mark.parametrize("world", [1, 2, 3])
@pytest.mark.parametrize("start", [1, 7, 63, 200])
def test_a_resumed_stream_goes_on_exactly(lengths, start, world):
    for rank in range(world):
        whole = stream(lengths, start + 50, rank=rank, world=world)
        assert stream(lengths, 50, rank=rank, world=world, start=start) == whole[start:]


@pytest.mark.parametrize("world", [2, 3])
def test_ranks_share_out_the_stream_of_one_process(lengths, world):
    ranks = [stream(lengths, 70, rank=rank, world=world) for rank in range(world)]
    assert [batch for step in zip(*ranks, strict=True) for batch in step] == stream(
        lengths, 70 * world
    )


def test_more_ranks_than_batches_reach_into_the_next_epoch():
    lengths = np.full((2, 2), 5)
    ranks = [stream(lengths, 4, rank=rank, world=3, max_tokens=100) for rank in range(3)]
    assert [sorted(batch) for rank in ranks for batch in rank] == [[0, 1]] * 12
