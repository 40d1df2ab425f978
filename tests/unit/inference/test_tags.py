"""Inline tags stand around the same words before and after translation."""

from __future__ import annotations

import re
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seq2seq.data.tokenizer import Tokenizer
from seq2seq.inference.tags import TAG, Tag, partners, put_tags, take_tags, unit_weights


def spaces(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize(
    ("source", "clean", "places"),
    [
        ("Click <b>here</b> now.", "Click here now.", [6, 10]),
        ("<i>big <b>red</b></i> dog", "big red dog", [0, 4, 7, 7]),
        ("a <b> b </b> c", "a b c", [2, 4]),
        ("un<b>do</b>ing", "undoing", [2, 4]),
        ("x < y and y > z", "x < y and y > z", []),
        ("a <!-- b --> c", "a c", [2]),
    ],
)
def test_taking_tags(source, clean, places):
    text, tags = take_tags(source, spaces)
    assert (text, [tag.at for tag in tags]) == (clean, places)
    assert [tag.text for tag in tags] == [match[0] for match in TAG.finditer(source)]


def test_partners():
    tags = ["<a>", "<br>", "<b>", "</a>", "</b>", "</c>", "<I>", "</i>", "<x/>"]
    assert partners(tags) == {0: 3, 3: 0, 6: 7, 7: 6}


def test_what_encloses_a_space_only_stands_in_no_other_element():
    clean, tags = take_tags("a<b><i> </i><u>é.</u></b>dog", spaces)
    weights = np.array([[0.0, 1.0, 2.0, 1.0], [1.0, 2.0, 2.0, 2.0]])
    result = put_tags(tags, clean, "un un", weights)
    assert TAG.sub("", result) == "un un"
    assert "<i></i>" in result


def test_many_tags_that_nothing_closes_are_read_in_no_time():
    start = time.process_time()
    assert partners(["<a>"] * 8000 + ["</b>"] * 8000) == {}
    assert time.process_time() - start < 1


def test_elements_deep_inside_others_come_back():
    source = "<b>" * 1200 + "dog" + "</b>" * 1200
    clean, tags = take_tags(source, spaces)
    for target in ("un chien", ""):
        result = put_tags(tags, clean, target, None)
        assert (result.count("<b>"), result.count("</b>")) == (1200, 1200)
        assert TAG.sub("", result) == target


def links(*of_target: int, source: int) -> np.ndarray:
    """Weights (T, S) by which each unit of the target belongs to one of the source."""
    return np.eye(source)[list(of_target)]


@pytest.mark.parametrize(
    ("source", "target", "weights", "expected"),
    [
        # The adjective moves behind its noun, and the tag with it.
        ("The <b>red</b> house.", "La maison rouge.", links(0, 2, 1, 3, source=4),
         "La maison <b>rouge</b>."),
        ("The <i>big <b>red</b></i> house", "La grosse maison rouge",
         links(0, 1, 3, 2, source=4), "La <i>grosse maison <b>rouge</b></i>"),
        ("<u>I</u> <b>like it</b>.", "Ça me plaît.", links(2, 0, 1, 3, source=4),
         "Ça <u>me</u> <b>plaît</b>."),  # an element stays in one piece
        ("A <img/>dog", "Un chien", links(0, 1, source=2), "Un <img/>chien"),
        ("A dog<img/>", "Un chien", links(0, 1, source=2), "Un chien<img/>"),
        ("<b>See</b> www.a.fr", "www.a.fr voir", links(1, 0, source=2), "www.a.fr <b>voir</b>"),
        ("Say </b>a<c> b", "Dis a b", links(0, 1, 2, source=3), "Dis </b>a <c>b"),
    ],
)  # fmt: skip
def test_putting_tags_back(source, target, weights, expected):
    clean, tags = take_tags(source, spaces)
    assert put_tags(tags, clean, target, weights) == expected


def test_without_weights_places_are_kept():
    clean, tags = take_tags("one two <b>three</b> four", spaces)
    assert put_tags(tags, clean, "un deux trois quatre", None) == "un deux <b>trois</b> quatre"


NAMES = st.sampled_from(["b", "i", "u"])
PART = st.sampled_from(["dog ", "a", " ", "é.", "<x/>", "</b>", "<i>"])
ELEMENT = st.builds(lambda n, text: f"<{n}>{text}</{n}>", NAMES, PART | st.just("red cat "))
NESTED = st.builds(lambda n, parts: f"<{n}>{''.join(parts)}</{n}>", NAMES, st.lists(ELEMENT | PART))


@given(
    st.lists(NESTED | PART, max_size=8),
    st.lists(st.sampled_from(["un", "l'", "chien", ",", " ", "."]), max_size=9),
    st.randoms(use_true_random=False),
)
def test_all_tags_come_back_and_the_text_stays(parts, words, rng):
    """Whatever the weights are: every tag once, the words untouched, elements still nested."""
    clean, tags = take_tags("".join(parts), spaces)
    target = " ".join(words).strip()
    shape = [len(re.findall(r"\w+['’]?|[^\w\s]", text)) for text in (target, clean)]
    weights = np.array([[rng.random() for _ in range(shape[1])] for _ in range(shape[0])])
    result = put_tags(tags, clean, target, weights.reshape(shape))
    assert sorted(TAG.findall(result)) == sorted(TAG.findall("".join(parts)))
    assert TAG.sub("", result).replace(" ", "") == target.replace(" ", "")
    paired = len(partners([tag.text for tag in tags]))
    assert len(partners([match[0] for match in TAG.finditer(result)])) >= paired


def test_weights_of_tokens_become_weights_of_words():
    tokenizer = Tokenizer.train(["a"], 259)  # every byte is a token
    source, target = "né là", "at 😀."
    ids = [tokenizer.encode([text])[0] for text in (source, target)]
    ends = [tokenizer.ends(each) for each in ids]
    assert ends[0] == [0, 1, 2, 2, 3, 4, 5, 5]  # the space in front, then é and à of two bytes
    weights = np.arange(len(ids[1]) * len(ids[0]), dtype=float)
    weights = weights.reshape(len(ids[1]), len(ids[0]))
    found = unit_weights(source, target, (ends[0], ends[1]), weights)
    rows, columns = [[1, 2], [4, 5, 6, 7], [8]], [[1, 2, 3], [5, 6, 7]]
    assert found.shape == (3, 2)
    naive = [[sum(weights[t, s] for t in r for s in c) for c in columns] for r in rows]
    assert found[0].tolist() == naive[0]
    assert found[2].tolist() == naive[2]


def test_a_tag_is_placed_by_its_text():
    assert put_tags([Tag("<b>", 0), Tag("</b>", 3)], "dog", "", None) == "<b></b>"
