"""Sentences in capitals: read in small letters, written in capitals."""

from __future__ import annotations

import pytest
from odd_strings import odd_strings
from tiny_translator import tiny_translator

from seq2seq.inference.capitals import in_capitals_of, in_small_letters
from seq2seq.inference.prose import in_prose
from seq2seq.inference.translation import Translation


@pytest.mark.parametrize(
    ("text", "small"),
    [
        ("PLEASE CLOSE THE DOOR!", "Please close the door!"),
        ("WHAT DO I DO? I'M LATE", "What do I do? I'm late"),
        ("«5 ÉCOLES FERMÉES»", "«5 écoles fermées»"),
        ("CLICK <b>HERE</b>, {name}: https://example.com/Docs &amp; WAIT",
         "Click <b>here</b>, {name}: https://example.com/Docs &amp; wait"),
    ],
)  # fmt: skip
def test_a_sentence_in_capitals_is_written_as_others_are(text, small):
    assert in_small_letters(text) == small
    [found] = in_capitals_of(text, [Translation(small, -0.5)])
    assert found == Translation(text, -0.5)


@pytest.mark.parametrize("text", ["", "NATO", "IBM 360", "I", "A small A", "NATO is here", "5 %"])
def test_other_texts_stay_as_they_are(text):
    assert in_small_letters(text) == text
    assert in_capitals_of(text, [Translation("Le", 0.0)]) == [Translation("Le", 0.0)]


def test_odd_texts_change_in_their_capitals_only():
    for kind, text in odd_strings(2000):
        for one in (text, text.upper()):
            assert in_small_letters(one).lower() == one.lower(), kind


def test_what_differs_in_capitals_only_is_one_translation():
    found = in_capitals_of("A B", [Translation(text, -1.0) for text in ("un B", "x", "un b")])
    assert [one.text for one in found] == ["UN B", "X"]


def test_its_translation_is_that_of_the_sentence_in_small_letters():
    translator = tiny_translator()
    small = ["The big <b>house</b> is {here}.", "A man  reads\nThe old house"]
    loud = ["THE BIG <b>HOUSE</b> IS {here}.", "A MAN  READS\nTHE OLD HOUSE"]
    for options in ({}, {"n_best": 2}, {"align": True}, {"typography": True}):
        expected = translator.translate(small, **options)
        for a, b in zip(expected, translator.translate(loud, **options), strict=True):
            assert b.text == in_prose(a.text, str.upper)
            assert (b.tokens, b.score, b.alignment) == (a.tokens, a.score, a.alignment)
    [plain], [other] = (translator.translate([one], protect=False) for one in (small[1], loud[1]))
    assert plain.tokens != other.tokens
