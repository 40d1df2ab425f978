"""Keys of near duplicates: pairs share one as often as the formula says, others hardly ever."""

from __future__ import annotations

import random

import numpy as np
import pytest

from seq2seq.data.minhash import BANDS, PAIRS_AT_ONCE, PIECE, ROWS, near_keys

DRAW = random.Random(4)
LETTERS = "abcdefghijklmnopqrstuvwxyz"


def pieces(source: str, target: str) -> set[str]:
    text = f"{source}\0{target}"
    return {text[first : first + PIECE] for first in range(len(text) - PIECE + 1)}


def similarity(pair, other) -> float:
    own, others = pieces(*pair), pieces(*other)
    return len(own & others) / len(own | others)


def changed(text: str, letters: int) -> str:
    at = DRAW.randrange(len(text) - letters)
    return text[:at] + "".join(DRAW.choices(LETTERS, k=letters)) + text[at + letters :]


@pytest.mark.parametrize("letters", [1, 6, 20, 40])
def test_similar_pairs_share_a_key_as_often_as_the_formula_says(letters):
    pairs = [tuple("".join(DRAW.choices(LETTERS, k=100)) for _ in range(2)) for _ in range(1500)]
    others = [(changed(source, letters), target) for source, target in pairs]
    keys, other_keys = near_keys(*zip(*pairs, strict=True)), near_keys(*zip(*others, strict=True))
    found = (keys == other_keys).any(axis=1).mean()
    alike = np.array([similarity(*two) for two in zip(pairs, others, strict=True)])
    expected = (1 - (1 - alike**ROWS) ** BANDS).mean()
    assert found == pytest.approx(expected, abs=0.05)
    assert 0.1 < expected < 0.999 or letters == 1
    assert not (keys == np.roll(other_keys, 1, axis=0)).any()


def test_pairs_that_differ_in_case_and_marks_alone_share_all_keys():
    keys = near_keys(["Thank you!", "thank you", "No"], ["Merci.", "merci", "Non"])
    assert (keys[0] == keys[1]).all()
    assert not (keys[0] == keys[2]).any()


def test_keys_of_a_pair_do_not_depend_on_the_others():
    many = ((f"number {n} of many", f"numéro {n}") for n in range(PAIRS_AT_ONCE))
    pairs = [("", ""), ("a", "b"), *many]
    together = near_keys(*zip(*pairs, strict=True))
    alone = [near_keys([source], [target])[0] for source, target in pairs]
    assert (together == np.stack(alone)).all()
    assert near_keys([], []).shape == (0, BANDS)
