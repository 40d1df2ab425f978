"""The largest numbers of a row are found piece by piece."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from seq2seq.decoding.beam import largest


@settings(max_examples=60, deadline=None)
@given(
    size=st.sampled_from([7, 32, 640, 960, 1000, 2048]),  # too short, whole pieces, and odd ones
    count=st.integers(1, 7),
    levels=st.sampled_from([3, 10**6]),  # few = many ties
    ruled_out=st.sampled_from([0.0, 0.5, 1.0]),
    seed=st.integers(0, 999),
)
def test_they_are_those_of_a_sorted_row(size, count, levels, ruled_out, seed):
    draw = torch.Generator().manual_seed(seed)
    x_RV = torch.randint(levels, (4, size), generator=draw).float()
    x_RV[torch.rand(4, size, generator=draw) < ruled_out] = -torch.inf
    places_RK = largest(x_RV, count)
    assert all(len(set(row)) == count for row in places_RK.tolist())
    found = [sorted((row[i] for i in places), reverse=True)
             for row, places in zip(x_RV.tolist(), places_RK.tolist(), strict=True)]  # fmt: skip
    assert found == [sorted(row, reverse=True)[:count] for row in x_RV.tolist()]


@pytest.mark.parametrize("size", [640, 641])
def test_a_row_is_left_as_it_is(size):
    x_RV = torch.randn(2, size)
    before = x_RV.clone()
    largest(x_RV, 3)
    assert torch.equal(x_RV, before)
