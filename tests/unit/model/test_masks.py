import pytest
import torch
from golden import load
from tiny import real_positions

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


def test_causal_without_past_is_a_triangle():
    assert masks.causal(3, 3)[0, 0].tolist() == drawn("x . .\nx x .\nx x x")


@pytest.mark.parametrize("keys", [1, 2, 7])
def test_a_single_new_query_sees_everything(keys):
    assert masks.causal(1, keys).all()


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


def test_masks_of_golden_vectors():
    for case in load("masks_000")["cases"]:
        real = torch.tensor(case["key_padding_mask"])
        assert real.tolist() == real_positions(case["lengths"], real.size(1)).tolist()
        allowed = masks.padding(real)
        if case["causal"]:
            assert case["query_offset"] == real.size(1) - case["query_len"]
            allowed = masks.combine(allowed, masks.causal(case["query_len"], real.size(1)))
        expected = torch.tensor(case["allowed"])
        assert torch.equal(allowed.expand_as(expected), expected), case["what"]
