"""Words that translate each other, found in a small corpus of sentences that are composed."""

from __future__ import annotations

import itertools

import pytest

from seq2seq.data import word_links
from seq2seq.data.word_links import WordLinks

NOUNS = {"dog": "chien", "cat": "chat", "horse": "cheval", "bird": "merle", "wolf": "loup"}
ADJECTIVES = {"black": "noir", "grey": "gris", "tired": "fatigué", "young": "jeune"}
VERBS = {"sees": "voit", "hears": "entend", "follows": "suit"}
PAIRS = [
    (f"The {a} {n} {v} the {m}.", f"Le {NOUNS[n]} {ADJECTIVES[a]} {VERBS[v]} le {NOUNS[m]}.")
    for a, n, v, m in itertools.product(ADJECTIVES, NOUNS, VERBS, NOUNS)
    if m != n
]


@pytest.fixture(scope="module")
def links():
    word_links.FREQUENT, kept = 1, word_links.FREQUENT  # "the" and "le"
    try:
        yield WordLinks(PAIRS)
    finally:
        word_links.FREQUENT = kept


def test_words_are_linked_wherever_they_stand(links):
    pair = ("the black dog sees the cat", "le chien noir voit le chat")
    source, target = (side.split() for side in pair)
    assert sorted(links.links(source, target)) == [(1, 2), (2, 1), (3, 3), (5, 5)]
    assert links.links([], []) == []


def test_phrases_stand_together_on_both_sides(links):
    source, target = "The black dog sees the cat.", "Le chien noir voit le chat."
    found = [(source[slice(*p.source)], target[slice(*p.target)])
             for p in links.phrases(source, target)]  # fmt: skip
    assert ("dog", "chien") in found
    assert ("black dog", "chien noir") in found
    assert ("sees the cat", "voit le chat") in found
    assert all(one != "black" or two == "noir" for one, two in found)
    assert ("dog sees", "chien noir voit") not in found  # noir is not theirs


def test_no_phrase_goes_over_a_mark_or_a_number(links):
    for between in (", ", " 2 ", " (", '" '):
        source, target = f"The dog{between}sees", f"Le chien{between}voit"
        assert len(links.phrases(source, target)) == 2


def test_no_pairs_give_no_links():
    assert WordLinks([]).phrases("The dog", "Le chien") == []
    assert WordLinks([("", ""), ("a", "b")]).phrases("a", "b") == []


def test_a_sample_is_bounded(monkeypatch):
    monkeypatch.setattr(word_links, "LINKS", 1000)
    read = []
    WordLinks(read.append(pair) or pair for pair in PAIRS)
    assert 50 < len(read) < 120
