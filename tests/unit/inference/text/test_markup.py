"""Inline tags stand around the same words before and after translation."""

from __future__ import annotations

import random
import re
import time
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from seq2seq.data.tokenizer import Tokenizer
from seq2seq.data.vocabularies import Vocabularies
from seq2seq.inference.text.markup import Markup, Taken, unit_weights
from seq2seq.inference.text.step import Attention
from seq2seq.inference.text.tags import find_markup, find_tags, in_prose, partners
from seq2seq.inference.translation import Translation

BYTES = Tokenizer.train(["a"], 259)  # every byte is a token


def spaces(text: str) -> str:
    return " ".join(text.split())


MARKUP = Markup(Vocabularies(BYTES, BYTES), spaces)


def of(text: str) -> list[str]:
    return [text[token.start : token.end] for token in find_markup(text)]


def put(taken: Taken, target: str, weights: np.ndarray | None) -> str:
    """A translation with markup, by the weights between units (T, S)."""
    result, attention = Translation(target, -1.0), None
    if weights is not None and (pieces := MARKUP.pieces_to_align(result, taken)):
        attention = Attention(pieces, spread(taken.clean, target, weights))
    return MARKUP.after(result, taken, attention).text


def spread(source: str, target: str, weights: np.ndarray) -> np.ndarray:
    """Weights between tokens that add up to those between units."""
    result = np.zeros([len(BYTES.encode([text])[0]) + 1 for text in (target, source)])
    places = [units(text) for text in (target, source)]
    ends = [BYTES.ends(BYTES.encode([text])[0]) for text in (target, source)]
    rows, columns = (
        [own.index(end) for _, end in each] for each, own in zip(places, ends, strict=True)
    )
    result[np.ix_(rows, columns)] = weights
    return result


def units(text: str) -> list[tuple[int, int]]:
    return [m.span() for m in re.finditer(r"www\.\w+\.\w+|\w+['’]?|[^\w\s]", text)]


@pytest.mark.parametrize(
    ("source", "clean", "places"),
    [
        ("Click <b>here</b> now.", "Click here now.", [6, 10]),
        ("<i>big <b>red</b></i> dog", "big red dog", [0, 4, 7, 7]),
        ("a <b> b </b> c", "a b c", [2, 4]),
        ("un<b>do</b>ing", "undoing", [2, 4]),
        ("x < y and y > z", "x < y and y > z", []),
        ("a <!-- b --> c", "a c", [2]),
        ("a 👍 b 🎉!", "a b!", [2, 3]),
        ("the caf&eacute; &copy; Tom &amp; &lt;Jerry", "the café Tom & <Jerry", [9]),
        ("Tom &amp; x.fr?a=1&copy=2", "Tom & x.fr?a=1&copy=2", []),
        ('I am "hungry".', "I am hungry.", [5, 11]),
        ('5" and 6"', '5" and 6"', []),
        ("10&nbsp;euros,&nbsp;&#160;now", "10 euros, now", [3, 10, 10]),
    ],
)
def test_what_the_model_reads(source, clean, places):
    text, taken = MARKUP.before(source)
    assert (text, [tag.at for tag in taken.tags]) == (clean, places)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a < b and <b>c</b\n> x", ["<b>", "</b\n>"]),
        ("A\n<b>b</b>", ["<b>", "</b>"]),
        ("x <b and c> d", []),  # a comparison; HTML has no such attributes
        ("<a href='it's broken'>q</a>", ["<a href='it's broken'>", "</a>"]),
        ("<button primary>red</button>", ["<button primary>", "</button>"]),
        ("<a title=\"a > b\" href='x'>q</a>", ["<a title=\"a > b\" href='x'>", "</a>"]),
        ("<script>a = '<b>';</script> w", ["<script>", "a = '<b>';", "</script>"]),
        ("see <script> tags <b>", ["<script>", "<b>"]),
        ("<!-- a > b --> <!DOCTYPE html> <?php a ?>", ["<!-- a > b -->", "<!DOCTYPE html>",
                                                       "<?php a ?>"]),
        ("<!-- a", []),
        ("<![foo]> <x:y a:b='c'/><input disabled>", ["<![foo]>", "<x:y a:b='c'/>",
                                                     "<input disabled>"]),
        ("<jo@a.org> <https://x.y/z>", []),
        ("👩‍🚀 ❤️ 🇫🇷🏽 → 5°C −3 1️⃣", ["👩‍🚀", "❤️", "🇫🇷🏽", "→", "1️⃣"]),
        ("2×4 is 8, 10→20, 3 → 4", ["→"]),  # what stands between digits belongs to them
        ("`a → b` ✓ `echo <b>` `&nbsp;`", ["✓", "<b>", "`&nbsp;`"]),  # in code
        ("&nbsp;&eacute;&bogus;&copy;", ["&nbsp;", "&bogus;", "&copy;"]),
        ("", []),
    ],
)  # fmt: skip
def test_markup_of_a_text(text, found):
    assert of(text) == found


def test_a_model_that_has_learnt_symbols_reads_them():
    step = Markup(Vocabularies(BYTES, BYTES), spaces, symbols=False)
    text, taken = step.before("<b>a</b> 👍 b 🎉 &copy;!")
    assert (text, [tag.text for tag in taken.tags]) == ("a 👍 b 🎉!", ["<b>", "</b>", "&copy;"])


def test_partners():
    text = "<a><br><b></a></b></c><I></i><x/>"
    assert partners(find_tags(text)) == {0: 3, 3: 0, 6: 7, 7: 6}


def test_what_encloses_a_space_only_stands_in_no_other_element():
    _, taken = MARKUP.before("a<b><i> </i><u>é.</u></b>dog")
    weights = np.array([[0.0, 1.0, 2.0, 1.0], [1.0, 2.0, 2.0, 2.0]])
    result = put(taken, "un un", weights)
    assert re.sub("<.*?>", "", result) == "un un"
    assert "<i></i>" in result


@pytest.mark.parametrize("part", ["<a>", "</b>", "<", "<b", "<!--", "<![", "&a", '<a b="', "👍<"])
def test_long_texts_are_read_in_no_time(part):
    text = part * (100_000 // len(part)) + ">"
    start = time.process_time()
    partners(find_markup(text))
    assert time.process_time() - start < 10


def test_elements_deep_inside_others_come_back():
    _, taken = MARKUP.before("<b>" * 1200 + "dog" + "</b>" * 1200)
    for target in ("un chien", ""):
        result = put(taken, target, None)
        assert (result.count("<b>"), result.count("</b>")) == (1200, 1200)
        assert re.sub("<.*?>", "", result) == target


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
        # What encloses a sentence goes on to do so, wherever its words looked.
        ("<b>A dog.</b>", "Un chien.", links(2, 2, 2, source=3), "<b>Un chien.</b>"),
        ("<i/><u><b>A</b> dog</u>", "Un chien", links(1, 0, source=2),
         "<i/><u>Un <b>chien</b></u>"),
        # The full stop may look anywhere.
        ("A dog 👍.", "Un chien.", links(0, 1, 0, source=3), "Un chien 👍."),
        ("A dog 👍!", "Un chien !", links(0, 1, 0, source=3), "Un chien 👍!"),
        ("👍 A dog.", "Un chien.", links(1, 0, 2, source=3), "👍 Un chien."),
        ("A dog 👍.", "Un chien.", links(0, 1, 2, source=3), "Un chien 👍."),
        ("Windows™ is slow", "lent est Windows", links(2, 1, 0, source=3),
         "lent est Windows™"),
        ('I am "hungry".', "J'ai faim.", links(0, 2, 2, 3, source=4), "J'\"ai faim\"."),
        # A quotation mark stands in no word; other markup may.
        ('Say "maybe" now', "Dis peut-être là", links(0, 1, 0, 0, 2, source=3),
         'Dis "peut-être" là'),
        ('now "masterpiece"', "là chef-d'œuvre", links(0, 0, 0, 0, 1, source=2),
         'là "chef-d\'œuvre"'),
        ("Are <b>you</b> sure", "Êtes-vous sûr", links(0, 0, 1, 2, source=3),
         "Êtes-<b>vous</b> sûr"),
        ("<b>Paris</b>-<i>Lyon</i> train", "train Paris-Lyon", links(3, 0, 1, 2, source=4),
         "train <b>Paris</b>-<i>Lyon</i>"),
        ('a "dog"', "l'chien", links(1, 0, source=2), '"l\'chien"'),
        ("Say </b>a<c> b", "Dis a b", links(0, 1, 2, source=3), "Dis </b>a<c> b"),
    ],
)  # fmt: skip
def test_markup_goes_where_its_words_went(source, target, weights, expected):
    _, taken = MARKUP.before(source)
    assert put(taken, target, weights) == expected


def test_many_tags_around_a_sentence_are_written_in_no_time():
    tags = 8000
    start = time.process_time()
    text = "<b>" * tags + "word" + "</b>" * tags
    _, taken = MARKUP.before(text)
    assert sorted(put(taken, "mot", None)) == sorted(text.replace("word", "mot"))
    assert time.process_time() - start < 2


def test_without_weights_places_are_kept():
    _, taken = MARKUP.before("one two <b>three</b> four")
    assert put(taken, "un deux trois quatre", None) == "un deux <b>trois</b> quatre"


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        ("one&nbsp;two", "un deux", "un&nbsp;deux"),
        ("one two &nbsp;&nbsp;three", "un deux trois", "un deux &nbsp;&nbsp;trois"),
    ],
)
def test_spaces_that_are_entities_stay_and_no_other_space_comes_beside(source, target, expected):
    _, taken = MARKUP.before(source)
    assert put(taken, target, None) == expected


def test_what_was_read_of_entities_is_written_as_such():
    _, taken = MARKUP.before("Tom &amp; <b>Jerry</b>")
    assert put(taken, "Tom & Jerry", links(0, 1, 2, source=3)) == "Tom &amp; <b>Jerry</b>"


NAMES = st.sampled_from(["b", "i", 'u title="a > b"', "a href='x' hidden"])
PART = st.sampled_from(
    ["dog ", "a", " ", "é.", "<x/>", "</b>", "<i>", "<!-- a > b -->", " 👍 ", "🎉", "a < b ",
     "&nbsp;"]
)
ELEMENT = st.builds(
    lambda n, text: f"<{n}>{text}</{n.split()[0]}>", NAMES, PART | st.just("red cat ")
)
NESTED = st.builds(
    lambda n, parts: f"<{n}>{''.join(parts)}</{n.split()[0]}>", NAMES, st.lists(ELEMENT | PART)
)


@settings(deadline=None)  # a busy machine is slow now and then
@given(
    st.lists(NESTED | PART, max_size=8),
    st.lists(st.sampled_from(["un", "l'", "chien", ",", " ", "."]), max_size=9),
    st.randoms(use_true_random=False),
)
@example(["<b><b>a</b><b>dog </b></b>"], ["un"], random.Random(0))  # two elements in one word
def test_all_markup_comes_back_and_the_text_stays(parts, words, rng):
    """Whatever the weights are: everything once, the words untouched, elements still nested."""
    source = "".join(parts)
    _, taken = MARKUP.before(source)
    target = " ".join(words).strip()
    shape = [len(units(text)) for text in (target, taken.clean)]
    weights = np.array([[rng.random() for _ in range(shape[1])] for _ in range(shape[0])])
    result = put(taken, target, weights.reshape(shape) if all(shape) else None)
    # Symbols that have become neighbours count as one.
    assert sorted("".join(of(result))) == sorted("".join(of(source)))
    bare = result
    for token in reversed(find_markup(result)):
        bare = bare[: token.start] + bare[token.end :]
    assert bare.replace(" ", "") == target.replace(" ", "")
    assert len(partners(find_tags(result))) >= len(partners(find_tags(source)))


@settings(deadline=None)
@given(st.text(st.sampled_from("ab<>/!-&;\"'= \n?[]👍é"), max_size=40))
def test_any_text_is_markup_and_prose(text):
    tokens = find_markup(text)
    assert all(0 <= a.start < a.end <= b.start for a, b in pairwise(tokens))
    tags = [text[tag.start : tag.end] for tag in find_tags(text)]
    assert all(tag[0] == "<" and tag[-1] == ">" for tag in tags)
    assert in_prose(text, str) == text


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
