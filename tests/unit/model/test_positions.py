import cmath
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from seq2seq.model.positions import (
    LearnedPositions,
    RotaryPositions,
    SinusoidalPositions,
    sinusoidal_table,
)

ADDED = [SinusoidalPositions, LearnedPositions]


def test_sinusoidal_table_is_the_formula_of_the_paper():
    width = 6
    expected = [[0.0] * width for _ in range(40)]
    for position in range(40):
        for i in range(width // 2):
            angle = position / 10000 ** (2 * i / width)
            expected[position][2 * i] = math.sin(angle)
            expected[position][2 * i + 1] = math.cos(angle)
    assert_close(sinusoidal_table(40, width), torch.tensor(expected), rtol=0, atol=1e-6)


def test_halves_are_the_same_waves_with_all_sines_first():
    table = sinusoidal_table(40, 6)
    expected = torch.cat([table[:, 0::2], table[:, 1::2]], dim=1)
    assert torch.equal(sinusoidal_table(40, 6, halves=True), expected)


def test_far_sinusoidal_positions_are_exact_too():
    angle = 4999 / 10000 ** (2 / 512)
    assert sinusoidal_table(5000, 512)[4999, 2].item() == pytest.approx(math.sin(angle), abs=1e-6)


def test_sinusoidal_positions_add_the_table():
    x = torch.randn(2, 5, 6)
    assert_close(
        SinusoidalPositions(9, 6)(x, start=3) - x, sinusoidal_table(9, 6)[3:8].expand(2, -1, -1)
    )


def test_learned_positions_add_one_vector_each():
    positions = LearnedPositions(9, 6)
    x = torch.randn(2, 5, 6)
    assert_close(positions(x, start=3), x + positions.embedding.weight[3:8])


def test_fixed_positions_are_not_saved_and_learned_ones_are():
    assert not SinusoidalPositions(9, 6).state_dict()
    assert not RotaryPositions(9, 6).state_dict()
    assert list(LearnedPositions(9, 6).state_dict()) == ["embedding.weight"]


@pytest.mark.parametrize("kind", [*ADDED, RotaryPositions])
@settings(max_examples=10, deadline=None)
@given(cut=st.integers(1, 6))
def test_a_sequence_may_be_given_in_parts(kind, cut):
    positions = kind(7, 4)
    x = torch.randn(2, 3, 7, 4) if kind is RotaryPositions else torch.randn(2, 7, 4)
    parts = [positions(x[..., :cut, :]), positions(x[..., cut:, :], start=cut)]
    assert_close(torch.cat(parts, dim=-2), positions(x))


@settings(max_examples=20, deadline=None)
@given(i=st.integers(0, 50), j=st.integers(0, 50), shift=st.integers(0, 49))
def test_rotary_product_depends_on_the_distance_alone(i, j, shift):
    rotary = RotaryPositions(100, 8)
    q, k = torch.randn(2, 1, 1, 1, 8, dtype=torch.float64)
    here = (rotary(q, start=i) * rotary(k, start=j)).sum()
    there = (rotary(q, start=i + shift) * rotary(k, start=j + shift)).sum()
    assert_close(here, there, rtol=0, atol=1e-5)  # the angles are kept in float32


def test_rotary_product_changes_with_the_distance():
    rotary, q = RotaryPositions(100, 8), torch.ones(1, 1, 1, 8)
    products = [(rotary(q, start=0) * rotary(q, start=j)).sum().item() for j in range(4)]
    assert len({round(product, 3) for product in products}) == 4


def test_rotary_turns_each_pair_by_position_times_its_frequency():
    x = torch.randn(1, 1, 5, 6, dtype=torch.float64)
    turned = RotaryPositions(9, 6)(x, start=2)
    for t in range(5):
        for i in range(3):
            number = complex(x[0, 0, t, 2 * i], x[0, 0, t, 2 * i + 1])
            number *= cmath.exp(1j * (t + 2) * 10000 ** (-2 * i / 6))
            expected = torch.tensor([number.real, number.imag], dtype=torch.float64)
            assert_close(turned[0, 0, t, 2 * i : 2 * i + 2], expected, rtol=0, atol=1e-6)


def test_rotary_keeps_norms_and_the_first_position():
    x = torch.randn(2, 3, 7, 8, dtype=torch.float64)
    turned = RotaryPositions(7, 8)(x)
    assert_close(turned.norm(dim=-1), x.norm(dim=-1), rtol=0, atol=1e-6)
    assert_close(turned[:, :, 0], x[:, :, 0])


@pytest.mark.parametrize("kind", [*ADDED, RotaryPositions])
def test_the_last_position_works_and_the_next_is_refused(kind):
    positions = kind(8, 4)
    x = torch.randn(1, 2, 3, 4) if kind is RotaryPositions else torch.randn(2, 3, 4)
    assert positions(x, start=5).shape == x.shape
    with pytest.raises(ValueError, match=r"position 8 lies past .* limit of 8 tokens.*max_length"):
        positions(x, start=6)


@pytest.mark.parametrize("kind", [*ADDED, RotaryPositions])
def test_positions_keep_half_precision(kind):
    x = torch.randn(1, 2, 3, 4) if kind is RotaryPositions else torch.randn(2, 3, 4)
    positions = kind(8, 4).to(torch.bfloat16)
    assert positions(x.to(torch.bfloat16)).dtype == torch.bfloat16


@pytest.mark.parametrize("kind", [*ADDED, RotaryPositions])
@settings(max_examples=20, deadline=None)
@given(places=st.lists(st.lists(st.integers(0, 7), min_size=3, max_size=3), min_size=2, max_size=2))
def test_each_token_may_stand_at_a_place_of_its_own(kind, places):
    positions = kind(8, 4)
    x = torch.randn(2, 2, 3, 4) if kind is RotaryPositions else torch.randn(2, 3, 4)
    together = positions(x, torch.tensor(places))
    for b, row in enumerate(places):
        for t, place in enumerate(row):
            alone = positions(x[b : b + 1, ..., t : t + 1, :], start=place)
            assert_close(together[b : b + 1, ..., t : t + 1, :], alone)


def test_rotary_positions_of_tokens_turn_all_heads_alike():
    rotary, x = RotaryPositions(8, 4), torch.randn(2, 1, 3, 4)
    places = torch.tensor([[0, 1, 2], [5, 6, 7]])
    turned = rotary(x.expand(-1, 3, -1, -1), places)
    assert_close(turned[:, 0], turned[:, 2])
    assert_close(turned[1:], rotary(x[1:].expand(-1, 3, -1, -1), start=5))
