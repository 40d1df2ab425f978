"""Weights of a mixture: explicit, by temperature, or none."""

from __future__ import annotations

import numpy as np
import pytest

from seq2seq.config import DataConfig
from seq2seq.data import mixture
from seq2seq.data.mixture import Member, weigh_members

MEMBERS = [("small", 0, 100), ("large", 100, 10_100)]


def shares(**settings) -> list[float]:
    members = {"small": {}, "large": {}}
    weighed = weigh_members(DataConfig(train=None, members=members, **settings), MEMBERS)
    sizes = [member.size for member in weighed]
    return [size / sum(sizes) for size in sizes]


def test_without_weights_every_pair_counts_once():
    config = DataConfig(train=None, members={"small": {}, "large": {}})
    assert [member.size for member in weigh_members(config, MEMBERS)] == [100, 10_000]


def test_weights_are_times_per_epoch():
    config = DataConfig(train=None, members={"small": {}, "large": {}}, weights={"small": 2.5})
    assert [member.size for member in weigh_members(config, MEMBERS)] == [250, 10_000]


def test_changed_weights_leave_the_others():
    config = DataConfig(train=None, members={"small": {}, "large": {}}, weights={"small": 2.5})
    assert [member.size for member in weigh_members(config, MEMBERS, {"large": 0.5})] == [
        250,
        5_000,
    ]


@pytest.mark.parametrize("temperature", [1.0, 2.0, 5.0])
def test_a_share_is_a_power_of_the_size(temperature):
    small, large = shares(temperature=temperature)
    assert small / large == pytest.approx((100 / 10_000) ** (1 / temperature), rel=0.01)


def test_an_epoch_keeps_its_size_under_a_temperature():
    config = DataConfig(train=None, members={"small": {}, "large": {}}, temperature=3)
    assert sum(m.size for m in weigh_members(config, MEMBERS)) == pytest.approx(10_100, abs=2)


def test_high_temperatures_make_equal_shares():
    assert shares(temperature=1e6) == pytest.approx([0.5, 0.5], abs=1e-4)


def test_a_fraction_of_a_member_is_the_window_that_running_trainings_know():
    """And its permutation is computed once, not for each pool of batches."""
    member, positions = Member("m", 70, 1070, 1.3), np.arange(1300)
    expected = np.random.default_rng((5, 70)).permutation(1000)[(3 * 300 + np.arange(300)) % 1000]
    mixture._order.cache_clear()
    for _ in range(3):
        pairs = member.pairs_at(positions.copy(), epoch=3, seed=5)
        assert pairs.tolist() == [*range(70, 1070), *(70 + expected)]
    assert (mixture._order.cache_info().misses, mixture._order(1000, 5, 70).itemsize) == (1, 4)


def test_a_large_member_is_permuted_in_blocks_and_still_seen_equally_often(monkeypatch):
    monkeypatch.setattr(mixture, "SHUFFLED", 100)
    monkeypatch.setattr(mixture, "BLOCK", 8)
    member = Member("m", 7, 1010, 0.5)  # 125 blocks, and 3 pairs
    epochs = [member.pairs_at(np.arange(member.size), epoch, seed=1) for epoch in range(1003)]
    assert (np.bincount(np.concatenate(epochs), minlength=1010)[7:] == member.size).all()
    assert sorted(epochs[0]) != [*range(7, 7 + member.size)]
    assert len(mixture._order(125, 1, 7)) == 126


def test_the_number_of_a_pair_may_exceed_32_bits():
    member = Member("m", 0, 5_000_000_000, 0.001)
    pairs = member.pairs_at(np.arange(0, member.size, 1024), epoch=0, seed=1)
    assert pairs.max() > 2**32
