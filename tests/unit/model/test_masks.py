import re

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tutorials import per_query

from seq2seq.model import masks


def drawn(picture: str) -> list[list[bool]]:
    """A mask as the docstrings draw it: x may attend, . may not."""
    return [[mark == "x" for mark in line.split()] for line in picture.strip().splitlines()]


def test_padding_shows_the_real_keys():
    allowed = masks.padding(torch.tensor([[1, 1, 1], [1, 1, 0]]))
    assert allowed.dtype == torch.bool
    assert allowed.shape == (2, 1, 1, 3)
    assert allowed[:, 0, 0].tolist() == drawn("x x x\nx x .")


def test_padding_takes_any_place_of_a_token_as_it_is_given():
    real = torch.tensor([[False, True, False, True]])
    assert masks.padding(real).flatten().tolist() == [False, True, False, True]


def test_causal_with_cached_past_is_as_drawn():
    allowed = masks.causal(3, 5)
    assert allowed.dtype == torch.bool
    assert allowed.shape == (1, 1, 3, 5)
    assert allowed[0, 0].tolist() == drawn("x x x . .\nx x x x .\nx x x x x")


def test_causal_refuses_more_queries_than_keys():
    with pytest.raises(ValueError, match=r"4 queries cannot be the last of 3 keys.*at least as"):
        masks.causal(4, 3)


def test_combine_allows_what_all_allow():
    combined = masks.combine(masks.padding(torch.tensor([[1, 1, 0]])), None, masks.causal(3, 3))
    assert combined is not None
    assert combined.shape == (1, 1, 3, 3)
    assert combined[0, 0].tolist() == drawn("x . .\nx x .\nx x .")


def test_combine_of_one_mask_is_that_mask_and_of_none_is_no_restriction():
    mask = masks.causal(2, 2)
    assert torch.equal(masks.combine(None, mask, None), mask)
    assert masks.combine() is None
    assert masks.combine(None, None) is None


@pytest.mark.parametrize("kind", [torch.bool, torch.uint8, torch.int64, torch.float32])
def test_ones_and_zeros_of_any_type_are_true_and_false(kind):
    allowed = masks.padding(torch.tensor([[1, 0, 1], [0, 0, 1]]).to(kind))
    assert allowed.dtype == torch.bool
    assert allowed.flatten().tolist() == [True, False, True, False, False, True]


FULL = (2, 4, 3, 5)  # batch, heads, queries, keys


@given(st.tuples(*(st.sampled_from([1, size]) for size in FULL)))
def test_a_mask_may_have_each_dimension_full_or_one(shape):
    masks.check(torch.ones(shape, dtype=torch.bool), FULL)


@given(st.lists(st.integers(1, 6), max_size=5).map(tuple))
def test_a_mask_of_any_other_shape_is_refused(shape):
    assume(len(shape) != 4 or any(x not in (1, y) for x, y in zip(shape, FULL, strict=True)))
    message = re.escape(f"a mask of shape {shape} does not broadcast") + r".*= \(2, 4, 3, 5\): give"
    with pytest.raises(ValueError, match=message):
        masks.check(torch.ones(shape, dtype=torch.bool), FULL)


@pytest.mark.parametrize("kind", [torch.float32, torch.int64, torch.uint8])
def test_a_mask_that_is_not_boolean_is_refused(kind):
    with pytest.raises(ValueError, match=rf"boolean, True = may attend, got {kind}: masks.padding"):
        masks.check(torch.ones(FULL).to(kind), FULL)


def test_no_function_changes_its_arguments():
    rng = np.random.default_rng(0)
    real = torch.from_numpy(rng.random((2, 5)) < 0.5)
    each = torch.from_numpy(rng.random((2, 5, 5)) < 0.5).float()
    kept = real.clone(), each.clone()
    padding, own = masks.padding(real), per_query(each)
    again = padding.clone(), own.clone()
    combined = masks.combine(padding, own, masks.causal(5, 5))
    combined.fill_(False)
    assert torch.equal(real, kept[0])
    assert torch.equal(each, kept[1])
    assert torch.equal(padding, again[0])
    assert torch.equal(own, again[1])


@settings(max_examples=25, deadline=None)
@given(queries=st.integers(1, 6), past=st.integers(0, 5), seed=st.integers(0, 99))
def test_combined_masks_are_the_conditions_one_by_one(queries, past, seed):
    keys = queries + past
    rng = np.random.default_rng(seed)
    real, each = rng.random((2, keys)) < 0.6, rng.random((2, queries, keys)) < 0.6
    allowed = masks.combine(
        masks.padding(torch.from_numpy(real)),
        per_query(torch.from_numpy(each)),
        masks.causal(queries, keys),
    )
    assert allowed.shape == (2, 1, queries, keys)
    for b, t, s in np.ndindex(2, queries, keys):
        assert allowed[b, 0, t, s].item() == (real[b, s] and each[b, t, s] and s <= past + t)
