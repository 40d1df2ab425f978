"""What is translated of a text, and what stays around it."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seq2seq.inference.layout import FOREIGN, Layout, _Tags, _trimmed, lay_out
from seq2seq.inference.tags import TAG

LIMIT = 40  # characters count as tokens here


def laid_out(text: str, split: bool = True, protect: bool = True, limit: int = LIMIT) -> Layout:
    return lay_out(text, lambda piece: len(piece.strip()), limit, split=split, protect=protect)


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
        ("<b>All of it</b>", ["All of it"], ["<b>", "</b>"]),
        ("<b>Part</b> of it", ["<b>Part</b> of it"], ["", ""]),
        ("of <b>it</b>", ["of <b>it</b>"], ["", ""]),
        ("<b><i>x</i> y</b>", ["<i>x</i> y"], ["<b>", "</b>"]),
        ("<b>One. Two.</b>", ["One.", "Two."], ["<b>", " ", "</b>"]),
        ("One <b>two. Three</b> four.", ["One <b>two.", "Three</b> four."], ["", " ", ""]),
        ("Text.\n12:30\n***\nhttps://a.bc {x}", ["Text."], ["", "\n12:30\n***\nhttps://a.bc {x}"]),
        ("42", [], ["42"]),
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


def test_many_tags_around_a_piece_are_read_in_no_time():
    count = 8000
    text = "<b>" * count + "word" + "</b>" * count
    start = time.process_time()
    tags = _Tags(text)
    assert _trimmed(text, (0, len(text)), tags) == (3 * count, 3 * count + 4)
    assert time.process_time() - start < 1


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
    assert all(len(TAG.sub("", piece)) < LIMIT for piece in found.pieces)
    assert all(piece == piece.strip() for piece in found.pieces)
