"""Long texts are cut at good places into pieces that fit, and nothing but space is lost."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seq2seq.inference.splitting import split_text

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
