"""Weights of a mixture: explicit, by temperature, or none."""

from __future__ import annotations

import pytest

from seq2seq.config import DataConfig
from seq2seq.data.mixture import weigh_members

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
