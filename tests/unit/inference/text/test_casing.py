"""Sentences in capitals: read in small letters, written in capitals."""

from __future__ import annotations

import pytest
from odd_strings import odd_strings
from tiny_translator import tiny_translator

from seq2seq.inference.text.casing import Casing
from seq2seq.inference.text.tags import in_prose
from seq2seq.inference.translation import Translation

CASING = Casing()


@pytest.mark.parametrize(
    ("text", "small"),
    [
        ("PLEASE CLOSE THE DOOR!", "Please close the door!"),
        ("WHAT DO I DO? I'M LATE", "What do I do? I'm late"),
        ("«5 ÉCOLES FERMÉES»", "«5 écoles fermées»"),
        ("ADD 5 \u2126 HERE", "Add 5 \u2126 here"),  # an ohm sign
        ("CLICK <b>HERE</b>, {name}: https://example.com/Docs &amp; WAIT",
         "Click <b>here</b>, {name}: https://example.com/Docs &amp; wait"),
    ],
)  # fmt: skip
def test_a_sentence_in_capitals_is_written_as_others_are(text, small):
    assert CASING.before(text) == (small, True)
    assert CASING.after(Translation(small, -0.5), True, None) == Translation(text, -0.5)


@pytest.mark.parametrize("text", ["", "NATO", "IBM 360", "I", "A small A", "NATO is here", "5 %"])
def test_other_texts_stay_as_they_are(text):
    assert CASING.before(text) == (text, False)
    assert CASING.after(Translation("Le", 0.0), False, None) == Translation("Le", 0.0)


def test_odd_texts_change_in_their_capitals_only():
    for kind, text in odd_strings(2000):
        for one in (text, text.upper()):
            assert CASING.before(one)[0].lower() == one.lower(), kind


def test_only_english_writes_i_in_capitals():
    assert Casing(("it", "fr")).before("TU ED I TUOI")[0] == "Tu ed i tuoi"


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
