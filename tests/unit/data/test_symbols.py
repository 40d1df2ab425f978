"""Pairs with symbols: the same ones on both sides, and the words stay."""

from __future__ import annotations

import random
import re
from collections import Counter

import pytest
from test_word_links import PAIRS, links  # noqa: F401 - a fixture

from seq2seq.data.symbols import EMOJI, symbols
from seq2seq.data.tokenizer import Tokenizer
from seq2seq.text import normaliser

SOME = [*PAIRS[:: len(PAIRS) // 10], ("Tom is 12.", "Tom a 12 ans."), ("Really?", "Vraiment ?"),
        ("Yes. I do.", "Oui. Bien sûr."), ("Stop!", "Arrête !")]  # fmt: skip
TARGET = normaliser(["nfc", "controls", "spaces", "quotes", "marks"])


def signs(text: str) -> Counter[str]:
    return Counter(re.sub(r"[\w\s.,?!']", "", TARGET(text)))


@pytest.mark.parametrize("seed", range(200))
def test_both_sides_get_the_same_symbols(seed, links):  # noqa: F811
    for pair in SOME:
        made = symbols(*pair, random.Random(seed), links)
        assert signs(made[0]) == signs(made[1])
        assert made == symbols(*pair, random.Random(seed), links)


@pytest.mark.parametrize("seed", range(100))
def test_words_stay(seed, links):  # noqa: F811
    for pair in PAIRS[:: len(PAIRS) // 10]:
        for before, after in zip(pair, symbols(*pair, random.Random(seed), links), strict=True):
            words = iter(re.findall(r"[^\W_]+", after))
            assert all(word in words for word in re.findall(r"\w+", before))


def test_every_frequent_emoji_comes_up(links):  # noqa: F811
    text = "".join(symbols(*PAIRS[0], random.Random(seed), links)[0] for seed in range(12000))
    assert [one for one in EMOJI if one not in text] == []


def test_emoji_are_there_once_and_in_their_normal_form():
    assert len(set(EMOJI)) == len(EMOJI)
    assert all(TARGET(one) == one for one in EMOJI)


def test_every_emoji_can_be_spelt():
    spelt = Tokenizer.train(["a b"], 300)
    assert spelt.decode(spelt.encode(EMOJI)) == EMOJI
    assert spelt.decode(spelt.encode(["É\U0010ffff⟦1⟧ 漢字"])) == ["É\U0010ffff⟦1⟧ 漢字"]
