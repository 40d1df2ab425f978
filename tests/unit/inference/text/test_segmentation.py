"""What is translated of a text, and what stays around it."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seq2seq.inference.text.segmentation import (
    FOREIGN,
    Layout,
    Segmentation,
    split_text,
)
from seq2seq.inference.text.tags import blanked, find_markup

LIMIT = 40  # characters count as tokens here


def laid_out(text: str, split: bool = True, protect: bool = True, limit: int = LIMIT) -> Layout:
    return Segmentation(
        lambda piece: len(piece.strip()), limit, split=split, protect=protect
    ).before(text)


@pytest.mark.parametrize(
    ("text", "pieces", "gaps"),
    [
        ("Hello.", ["Hello."], ["", ""]),
        ("  Hello.\n", ["Hello."], ["  ", "\n"]),
        ("One two.  Three four.", ["One two.", "Three four."], ["", "  ", ""]),
        ("A\r\n\r\n\tB\x0bC", ["A", "B", "C"], ["", "\r\n\r\n\t", "\x0b", ""]),
        ("- Fine.\n  2) Good.\n• So", ["Fine.", "Good.", "So"], ["- ", "\n  2) ", "\n• ", ""]),
        ("1. One\n10. Two", ["One", "Two"], ["1. ", "\n10. ", ""]),
        ("## Title\n> [x] done", ["Title", "[x] done"], ["## ", "\n> ", ""]),
        ("A. Lincoln was here.", ["A. Lincoln was here."], ["", ""]),
        ("-5 degrees", ["-5 degrees"], ["", ""]),
        ("<p>A <b>b</b>.<br/>C</p>", ["A <b>b</b>.", "C"], ["<p>", "<br/>", "</p>"]),
        ("<p>A</p>\n<p>B</p>", ["A", "B"], ["<p>", "</p>\n<p>", "</p>"]),
        ("<b>All of it</b>", ["<b>All of it</b>"], ["", ""]),
        ("of <b>it</b>", ["of <b>it</b>"], ["", ""]),
        ("<b>One. Two.</b>", ["<b>One.", "Two.</b>"], ["", " ", ""]),
        ("One <b>two. Three</b> four.", ["One <b>two.", "Three</b> four."], ["", " ", ""]),
        ("Text.\n12:30\n***\nhttps://a.bc {x}", ["Text."], ["", "\n12:30\n***\nhttps://a.bc {x}"]),
        ("42", [], ["42"]),
        ("First name\tAge\nJohn\t35", ["First name", "Age", "John"], ["", "\t", "\n", "\t35"]),
        ("[^1]: A note.\n[^b]: C", ["A note.", "C"], ["[^1]: ", "\n[^b]: ", ""]),
        ("I. Introduction\nIV. Ends.", ["Introduction", "Ends."], ["I. ", "\nIV. ", ""]),
        ("I. Newton was here.", ["I. Newton was here."], ["", ""]),
        ("See you tomorrow 👍", ["See you tomorrow 👍"], ["", ""]),
        ("🎉🎉\nBye ❤️!", ["Bye ❤️!"], ["🎉🎉\n", ""]),
        ('<p title="a > b">A</p><!-- > -->', ["A"], ['<p title="a > b">', "</p><!-- > -->"]),
        ("<style>p > a {x}</style>\nHi", ["Hi"], ["<style>p > a {x}</style>\n", ""]),
        ("", [], [""]),
    ],
)
def test_pieces_and_gaps(text, pieces, gaps):
    found = laid_out(text)
    assert (found.pieces, found.gaps, found.notes) == (pieces, gaps, [])


@pytest.mark.parametrize(
    ("text", "layout"),
    [
        ("Привет, мир!\nHé", Layout(["Hé"], ["Привет, мир!\n", ""], [FOREIGN])),
        ("你好。\nмир", Layout([], ["你好。\nмир"], [FOREIGN])),
        ("https://a.bc {x} 4!", Layout([], ["https://a.bc {x} 4!"])),
    ],
)
def test_text_of_other_scripts_stays_and_is_noted(text, layout):
    assert laid_out(text) == layout


def test_without_splitting_and_protection_a_text_is_one_piece():
    text = "  - One. <b>Two.</b>\nThree. 4\n"
    assert laid_out(text, False, False).pieces == [text.strip()]
    assert laid_out(text, False, False).gaps == ["", ""]
    assert laid_out(text, False, True) == Layout(["One. <b>Two.</b>\nThree. 4"], ["  - ", "\n"])


@pytest.mark.parametrize("split", [True, False])
def test_what_is_too_long_is_cut_and_noted(split):
    text = "one two three, four five six, " * 5
    found = laid_out(text, split)
    assert all(len(piece) < LIMIT for piece in found.pieces)
    assert found.notes == [
        f"longer than the model's 40 tokens: translated in {len(found.pieces)} parts"
    ]
    assert found.fill(found.pieces) == text


def test_no_tag_is_cut():
    tag = '<a href="x" title="a b c d e f g h i j k l m n o p q r s t">'
    found = laid_out("some words " * 3 + tag + "more words " * 3)
    assert len(found.pieces) > 1
    assert sum(tag in piece for piece in [*found.pieces, *found.gaps]) == 1


ANY = st.text(st.sampled_from("ab .!?\n\r-*1)<>/{}\u3000é%\0"), max_size=60)


PARTS = st.sampled_from(["<b>", "</b>", "<p>", " Two. ", "- ", "{x}"])


@given(st.lists(ANY | PARTS), st.booleans())
def test_pieces_and_gaps_are_the_text_and_every_piece_fits(parts, split):
    text = "".join(parts)
    found = laid_out(text, split)
    assert found.fill(found.pieces) == text
    assert all(len(blanked(p, find_markup(p), "")) < LIMIT for p in found.pieces)
    assert all(piece == piece.strip() for piece in found.pieces)


# Sentences

TEXTS = [
    ["Dr. Smith lives in Washington D.C. with his wife. ", "He works at St. Mary's."],
    ["It costs 3.5 dollars. ", "That is 1.000 too much."],
    ['He said "Stop!" and ran. ', "She laughed."],
    ["Wait... what is that? ", "I don't know."],
    ["Mr. and Mrs. Brown arrived at 5 p.m. yesterday. ", "They left on Jan. 3."],
    ["Use e.g. apples, i.e. fruit, etc. for this. ", "It is good."],
    ["See Fig. 3 and No. 5 on p. 20. ", "Then go on."],
    ["The U.S. economy grew 2.5% in Q1. ", "The U.K. did not."],
    ["J. R. R. Tolkien wrote it. ", "It was long."],
    ["Is it Yahoo! or Google? ", "I use both."],
    ["Version 2.0.1 is out. ", "Download it at https://x.org/a.b?c=d."],
    ["What?! ", "No way! ", "Yes."],
    ["Hello world"],
]


@pytest.mark.parametrize("parts", TEXTS, ids=lambda parts: parts[0][:20])
def test_sentences_end_where_people_end_them(parts):
    assert laid_out("".join(parts), limit=400).pieces == [part.strip() for part in parts]


def test_the_splitter_is_not_loaded_before_it_is_needed():
    code = "import sys, seq2seq.inference.text.segmentation; sys.exit('sentencex' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_line_of_megabytes_is_cut_in_time():
    text = "A man is here, e.g. Mr. Smith. " * 20_000
    start = time.process_time()
    found = laid_out(text)
    assert time.process_time() - start < 60
    assert set(found.pieces) == {"A man is here, e.g. Mr. Smith."}
    assert len(found.pieces) == 20_000


# What is too long

TEXT = st.text(st.sampled_from("abé.,;!?… \n\t😀"), max_size=80) | st.text(max_size=40)
PROPERTY = settings(max_examples=200, deadline=None, database=None)


def squeezed(text: str) -> str:
    return "".join(text.split())


def within(limit: int):
    return lambda piece: len(piece) <= limit


@PROPERTY
@given(TEXT, st.integers(1, 30))
def test_every_piece_fits(text, limit):
    assert all(len(piece) <= limit for piece in split_text(text, within(limit)))


@PROPERTY
@given(TEXT, st.integers(1, 30))
def test_joined_pieces_keep_every_character_that_is_no_space(text, limit):
    assert squeezed("".join(split_text(text, within(limit)))) == squeezed(text)


@PROPERTY
@given(TEXT.filter(bool), st.integers(1, 30))
def test_no_piece_is_empty(text, limit):
    assert all(split_text(text, within(limit)))


@PROPERTY
@given(TEXT)
def test_what_fits_is_left_alone(text):
    assert split_text(text, within(len(text))) == [text]


@PROPERTY
@given(
    st.lists(st.text("abc", min_size=1, max_size=5), min_size=1, max_size=20), st.integers(5, 30)
)
def test_words_that_fit_are_never_cut(words, limit):
    pieces = split_text(" ".join(words), within(limit))
    assert [word for piece in pieces for word in piece.split()] == words


@pytest.mark.parametrize(
    ("text", "limit", "pieces"),
    [
        ("I came. I saw, and I left again.", 24, ["I came.", "I saw, and I left again."]),
        ("first part, second part here", 20, ["first part,", "second part here"]),
        ("one two three four", 12, ["one two", "three four"]),
        ("abcdefgh", 4, ["abcd", "efgh"]),
    ],
)
def test_sentence_ends_go_before_clauses_before_spaces_before_letters(text, limit, pieces):
    assert split_text(text, within(limit)) == pieces


def test_a_very_long_text_needs_no_deep_recursion():
    pieces = split_text("word " * 20_000, within(50))
    assert all(len(piece) <= 50 for piece in pieces)
    assert sum(piece.count("word") for piece in pieces) == 20_000
