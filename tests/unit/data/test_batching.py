"""Batches: every sentence once, within the budget, in an order that the seed alone decides."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seq2seq.data.batching import (
    Budget,
    TrainingBatches,
    Usable,
    padded_lengths,
    token_batches,
)
from seq2seq.data.mixture import Member

LENGTHS = st.lists(st.tuples(st.integers(1, 40), st.integers(1, 40)), max_size=60).map(
    lambda rows: np.array(rows, dtype=np.int64).reshape(-1, 2)
)
PROPERTY = settings(max_examples=150, deadline=None, database=None)


BUDGETS = st.builds(
    Budget, st.integers(2, 400), st.none() | st.integers(1, 9), st.integers(0, 8)
)


@pytest.fixture
def lengths() -> np.ndarray:
    return np.random.default_rng(0).integers(1, 30, (200, 2)).astype(np.uint16)


def flat(batches) -> list[int]:
    return [int(i) for batch in batches for i in batch]


def make(
    *lengths, seed=1, tokens=200, members=None, usable=None, **options
) -> TrainingBatches:
    usable = usable or Usable(np.zeros(0, np.int64), len(lengths[0]))
    members = members or [Member("all", 0, len(usable))]
    return TrainingBatches(lengths, Budget(tokens), seed, members, usable, **options)


def take(batches, count) -> list[list[int]]:
    return [pairs.tolist() for _, pairs in islice(batches, count)]


def stream(lengths, count, **options) -> list[list[int]]:
    return take(make(lengths, **options), count)


def one_epoch(batches, epoch=0) -> list[np.ndarray]:
    return [batch for pool in batches.epoch(epoch) for batch in pool]


def naive_positions(lengths, batch, multiple) -> int:
    """Padded positions of both sides, counted one by one."""
    longest = [max(int(lengths[i][side]) for i in batch) for side in (0, 1)]
    return sum(naive_length(length, multiple) for length in longest) * len(batch)


def naive_length(length: int, multiple: int) -> int:
    """A length rounded up; where multiple is 0, 8 lengths are there between powers of two."""
    power = 1
    while 2 * power < length:  # so that power < length <= 2 * power
        power *= 2
    multiple = multiple or max(1, power // 8)
    return next(n for n in range(length, length + multiple) if n % multiple == 0)


@PROPERTY
@given(LENGTHS, BUDGETS)
def test_every_pair_stands_in_one_batch(lengths, budget):
    assert sorted(flat(token_batches(lengths, budget))) == list(range(len(lengths)))


@PROPERTY
@given(LENGTHS, BUDGETS)
def test_no_batch_breaks_the_budget_unless_it_is_one_pair(lengths, budget):
    for batch in token_batches(lengths, budget):
        positions = naive_positions(lengths, batch, budget.multiple)
        assert len(batch) == 1 or positions <= budget.tokens
        assert budget.sentences is None or len(batch) <= budget.sentences


@PROPERTY
@given(LENGTHS, BUDGETS)
def test_batches_go_from_short_to_long(lengths, budget):
    longest = [
        naive_length(int(lengths[i].max()), budget.multiple)
        for i in flat(token_batches(lengths, budget))
    ]
    assert longest == sorted(longest)


@PROPERTY
@given(LENGTHS, BUDGETS)
def test_no_pair_of_the_next_batch_would_have_fitted(lengths, budget):
    """Of few shapes, not the next eight pairs."""
    batches = token_batches(lengths, budget)
    order = flat(batches)
    ends = np.cumsum([len(batch) for batch in batches]).tolist()
    for batch, end in zip(batches, ends, strict=True):
        more = 8 if budget.multiple == 0 and len(batch) >= 8 else 1
        full = budget.sentences is not None and len(batch) + more > budget.sentences
        rows = order[end - len(batch) : end + more]
        if not full and len(rows) == len(batch) + more:
            assert naive_positions(lengths, rows, budget.multiple) > budget.tokens


def test_ties_stand_in_the_given_order():
    lengths = np.array([[5, 5], [3, 3], [5, 5], [3, 3]])
    assert flat(token_batches(lengths, Budget(20))) == [1, 3, 0, 2]


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(("count", "spread"), [(30_000, 0.3), (200_000, 0.6)])
def test_at_most_six_percent_padding_on_lengths_like_those_of_real_text(count, spread, seed):
    rng = np.random.default_rng(seed)
    source = rng.lognormal(2.7, spread, count).clip(2, 200)
    lengths = np.stack([source, (source * rng.lognormal(0.1, 0.15, count)).clip(2, 250)], 1)
    lengths = lengths.astype(np.uint16)
    batches = token_batches(lengths, Budget(8192))
    positions = sum(naive_positions(lengths, batch, 1) for batch in batches)
    share = 1 - int(lengths.astype(int).sum()) / positions
    assert share <= 0.06


def test_few_shapes_are_few_and_cost_little():
    rng = np.random.default_rng(0)
    source = rng.lognormal(2.7, 0.6, 200_000).clip(2, 128)
    lengths = np.stack([source, (source * rng.lognormal(0.1, 0.15, 200_000)).clip(2, 128)], 1)
    lengths = lengths.astype(np.uint16)
    rows, padding = {}, {}
    for multiple in (1, 0):
        budget = Budget(4096, multiple=multiple)
        batches = token_batches(lengths, budget)
        longest = [padded_lengths(lengths[batch].max(axis=0), budget.multiple) for batch in batches]
        sizes = [len(b) * int(n) for b, of in zip(batches, longest, strict=True) for n in of]
        rows[multiple] = len(set(sizes))
        positions = sum(naive_positions(lengths, batch, multiple) for batch in batches)
        padding[multiple] = 1 - int(lengths.astype(int).sum()) / positions
    assert rows[0] < rows[1] / 3  # of the matrices that a step multiplies
    assert padding[0] < padding[1] + 0.03


@pytest.mark.parametrize("multiple", [0, 1, 3, 8])
def test_lengths_are_rounded_up(multiple):
    lengths = np.arange(1, 300, dtype=np.uint16)
    wanted = [naive_length(length, multiple) for length in lengths.tolist()]
    assert padded_lengths(lengths, multiple).tolist() == wanted


def test_the_stream_depends_on_the_seed_alone(lengths):
    assert stream(lengths, 90) == stream(lengths, 90)
    assert stream(lengths, 90) != stream(lengths, 90, seed=2)


@pytest.mark.parametrize("pool", [2**20, 70])
def test_epochs_differ_but_each_holds_every_pair_once(lengths, pool):
    batches = make(lengths, pool=pool)
    epochs = [one_epoch(batches, number) for number in range(3)]
    for epoch in epochs:
        assert sorted(flat(epoch)) == list(range(200))
    assert len({tuple(flat(epoch)) for epoch in epochs}) == 3
    whole = [b.tolist() for epoch in epochs for b in epoch]
    assert stream(lengths, len(whole), pool=pool) == whole


def test_a_pool_holds_no_more_pairs_than_it_should_and_mixes_blocks(monkeypatch):
    monkeypatch.setattr("seq2seq.data.batching.BLOCK", 8)
    pools = [np.concatenate(pool) for pool in make(np.full((1000, 2), 5), pool=64).epoch(0)]
    assert [len(pool) for pool in pools[:-1]] == [64] * (len(pools) - 1)
    assert sorted(np.concatenate(pools)) == list(range(1000))
    assert np.ptp(pools[0]) > 200  # from all over the corpus
    assert any(np.diff(pools[0]) != 1)


def test_an_epoch_is_shuffled_and_not_sorted_by_length(lengths):
    longest = [lengths[batch].max() for batch in one_epoch(make(lengths))]
    assert longest != sorted(longest)


def test_long_batches_come_in_another_order_each_epoch(lengths):
    batches = make(lengths)
    orders = [[int(lengths[batch].max()) for batch in one_epoch(batches, n)] for n in range(3)]
    ranks = [np.argsort(np.argsort(order, kind="stable")).tolist() for order in orders]
    assert ranks[0][:20] != ranks[1][:20] != ranks[2][:20] != ranks[0][:20]


@pytest.mark.parametrize("world", [1, 2, 3])
@pytest.mark.parametrize("used", [1, 7, 63, 200])
@pytest.mark.parametrize("pool", [2**20, 70])
def test_a_resumed_stream_goes_on_exactly(lengths, used, world, pool):
    for rank in range(world):
        batches = make(lengths, rank=rank, world_size=world, pool=pool)
        whole = take(batches, used + 50)
        place = batches.place(used * world)
        resumed = stream(lengths, 50, rank=rank, world_size=world, place=place, pool=pool)
        assert resumed == whole[used:]


@pytest.mark.parametrize(("before", "after"), [(2, 1), (1, 2), (3, 2), (2, 3)])
@pytest.mark.parametrize("used", [1, 9, 40])
def test_a_resumed_stream_goes_on_with_another_number_of_ranks(lengths, before, after, used):
    whole = stream(lengths, 300)
    stopped = make(lengths, world_size=before)
    take(stopped, used)
    place = stopped.place(used * before)
    ranks = [stream(lengths, 40, rank=r, world_size=after, place=place) for r in range(after)]
    merged = [batch for step in zip(*ranks, strict=True) for batch in step]
    assert merged == whole[used * before :][: 40 * after]


def test_every_rank_tells_the_same_place(lengths):
    for used in (5, 29, 30, 31, 100):
        places = []
        for rank in range(3):
            batches = make(lengths, rank=rank, world_size=3)
            take(batches, used)
            places.append(batches.place(3 * used))
        ends = [stream(lengths, 10, place=place) for place in places]
        assert ends[0] == ends[1] == ends[2]


@pytest.mark.parametrize("world", [2, 3])
def test_ranks_share_out_the_stream_of_one_process(lengths, world):
    ranks = [stream(lengths, 70, rank=rank, world_size=world) for rank in range(world)]
    assert [batch for step in zip(*ranks, strict=True) for batch in step] == stream(
        lengths, 70 * world
    )


def test_more_ranks_than_batches_reach_into_the_next_epoch():
    lengths = np.full((2, 2), 5)
    ranks = [stream(lengths, 4, rank=rank, world_size=3, tokens=200) for rank in range(3)]
    assert [sorted(batch) for rank in ranks for batch in rank] == [[0, 1]] * 12


def test_epochs_take_turns_among_segmentations():
    short, long = np.full((8, 2), 5), np.full((8, 2), 10)
    batches = make(short, long, tokens=40)
    assert [{len(batch) for batch in one_epoch(batches, epoch)} for epoch in range(3)] == [
        {4}, {2}, {4}
    ]  # fmt: skip


def test_pairs_that_cannot_be_used_are_in_no_batch(lengths):
    usable = np.flatnonzero(np.arange(200) % 3)
    chosen = Usable(np.flatnonzero(np.arange(200) % 3 == 0), len(usable))
    assert chosen.pairs(np.arange(len(usable))).tolist() == usable.tolist()
    before = [chosen.before(pair) for pair in range(201)]
    assert before == np.searchsorted(usable, range(201)).tolist()
    members = [Member("a", 0, 40), Member("b", 40, len(usable), 2)]
    seen = flat(one_epoch(make(lengths, usable=chosen, members=members)))
    assert sorted(seen) == sorted([*usable[:40], *usable[40:], *usable[40:]])


@PROPERTY
@given(st.integers(1, 30), st.integers(1, 30), st.floats(0.1, 4), st.integers(0, 5))
def test_members_of_a_mixture_are_seen_as_often_as_they_weigh(first, second, weight, seed):
    members = [Member("a", 0, first), Member("b", first, first + second, weight)]
    batches = make(np.full((first + second, 2), 3), members=members, seed=seed)
    epochs = 6
    seen = np.bincount(
        [row for epoch in range(epochs) for row in flat(one_epoch(batches, epoch))],
        minlength=first + second,
    )
    assert set(seen[:first]) == {epochs}
    assert seen[first:].sum() == epochs * max(1, round(weight * second))
    assert np.ptp(seen[first:]) <= 1  # no pair is ahead of another by more than one


def test_each_pool_has_an_order_of_its_own():
    lengths, usable = np.full((64, 2), 5), Usable(np.zeros(0, np.int64), 64)
    batches = TrainingBatches(
        [lengths], Budget(10), 1, [Member("all", 0, 64)], usable, pool=32
    )
    both = zip(batches.epoch(0), batches._pools(0), strict=True)
    first, second = ([pairs.tolist().index(int(b[0])) for b in pool] for pool, pairs in both)
    assert sorted(first) == sorted(second) == list(range(32))
    assert first != second
