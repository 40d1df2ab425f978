"""Placeholders, tags and given terms: the same marks on both sides, and nothing else is lost."""

from __future__ import annotations

import random
import re
from collections import Counter

import pytest
from conftest import ROOT
from omegaconf import OmegaConf
from test_word_links import PAIRS, links  # noqa: F401 - a fixture

from seq2seq.data.annotations import (
    AS,
    END_TERM,
    PLACEHOLDERS,
    SYMBOLS,
    TERM,
    escaped,
    placeholders,
    shared_spans,
    tags,
    terms,
)

NAMES = [
    ("Tom paid 12.50 to Mary at https://example.com/a.", "Tom a payé à Mary 12.50 à https://example.com/a."),
    ("John Smith was born in 1990.", "John Smith est né en 1990."),
]  # fmt: skip
MARK = re.compile("⟦[^⟧]*⟧")
SEEDS = range(60)


def marks(text: str) -> list[str]:
    return MARK.findall(text)


def test_spans_are_what_stands_once_on_both_sides():
    for pair, expected in zip(NAMES, (["Tom", "12.50", "Mary", "https://example.com/a"],
                                      ["John Smith", "1990"]), strict=True):  # fmt: skip
        found = shared_spans(*pair)
        assert [pair[0][slice(*one.source)] for one in found] == expected
        assert [pair[1][slice(*one.target)] for one in found] == expected
    assert shared_spans("3 or 3?", "3 ou 3 ?") == []
    assert shared_spans("I don't", "I non") == []


@pytest.mark.parametrize("make", [placeholders, tags])
@pytest.mark.parametrize("seed", SEEDS)
def test_both_sides_have_the_same_marks_each_once(make, seed, links):  # noqa: F811
    for pair in [*NAMES, *PAIRS[:: len(PAIRS) // 5]]:
        source, target = make(*pair, random.Random(seed), links)
        assert Counter(marks(source)) == Counter(marks(target))
        assert set(Counter(marks(source)).values()) <= {1}
        assert set(marks(source)) <= set(PLACEHOLDERS)
        assert marks(source) == sorted(marks(source))
        assert make(*pair, random.Random(seed), links) == (source, target)


def test_a_placeholder_stands_for_a_name_and_the_rest_stays(links):  # noqa: F811
    made = {placeholders(*NAMES[1], random.Random(seed), links) for seed in range(300)}
    assert ("⟦1⟧ was born in 1990.", "⟦1⟧ est né en 1990.") in made
    assert ("⟦1⟧ was born in ⟦2⟧.", "⟦1⟧ est né en ⟦2⟧.") in made
    assert {mark for source, _ in made for mark in marks(source)} == set(PLACEHOLDERS)


@pytest.mark.parametrize("seed", SEEDS)
def test_tags_leave_all_words(seed, links):  # noqa: F811
    for pair in PAIRS[:: len(PAIRS) // 5]:
        made = tags(*pair, random.Random(seed), links)
        assert tuple(MARK.sub("", side) for side in made) == pair
        assert len(marks(made[0])) in (2, 4)
        assert not any(re.search(f" {MARK.pattern}", side) for side in made)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_given_term_is_what_the_target_says(seed, links):  # noqa: F811
    for pair in PAIRS[:: len(PAIRS) // 5]:
        source, target = terms(*pair, random.Random(seed), links)
        assert target == pair[1]
        given = re.findall(f"{TERM} (.+?){AS} (.+?){END_TERM}", source)
        assert given
        assert all(one in pair[0] and other in target for one, other in given)
        assert re.sub(f"{AS}.*?{END_TERM}", "", source).replace(TERM, "") == pair[0]


def test_a_pair_without_links_stays(links):  # noqa: F811
    pair = ("well done", "bravo")
    for make in (placeholders, tags, terms):
        assert {make(*pair, random.Random(seed), links) for seed in SEEDS} == {pair}


def test_brackets_that_somebody_typed_are_no_marks():
    assert escaped("a ⟦1⟧ b ⟦term⟧") == "a [1] b [term]"


def test_the_experiment_has_a_token_for_each():
    experiment = OmegaConf.load(ROOT / "configs/experiment/general.yaml")
    assert tuple(experiment.tokenizer.symbols) == SYMBOLS
