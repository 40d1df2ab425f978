"""Lengths in steps, epochs and target tokens."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seq2seq.length import Length


@pytest.mark.parametrize(
    ("text", "count", "unit"),
    [
        (4000, 4000, "steps"),
        ("4000", 4000, "steps"),
        (4e3, 4000, "steps"),
        ("4e3", 4000, "steps"),
        ("1step", 1, "steps"),
        ("2epochs", 2, "epochs"),
        ("0.5 epochs", 0.5, "epochs"),
        ("1Epoch", 1, "epochs"),
        ("50Mtokens", 50e6, "tokens"),
        ("1.5Btokens", 1.5e9, "tokens"),
        ("7ktoken", 7000, "tokens"),
        ("300tokens", 300, "tokens"),
    ],
)
def test_lengths_are_read(text, count, unit):
    assert Length.parse(text) == Length(count, unit)


@pytest.mark.parametrize(
    "text",
    ["", "abc", "epochs", "0", 0, -1, "-2epochs", "0epochs", "2.5", 2.5, "2.5steps", "2weeks",
     "1e999epochs", "nan", "inf", None, True, "1.2.3epochs", "2 epochs more", "50M", "2epochss"],
)  # fmt: skip
def test_what_is_no_length_is_refused(text):
    with pytest.raises(ValueError, match="such as 4000, or 2epochs, or 50Mtokens"):
        Length.parse(text)


def test_lengths_become_steps():
    size = {"steps_per_epoch": 12.5, "tokens_per_step": 1000.0}
    assert Length.parse(40).in_steps(**size) == 40
    assert Length.parse("2epochs").in_steps(**size) == 25
    assert Length.parse("0.5epochs").in_steps(**size) == 6
    assert Length.parse("26ktokens").in_steps(**size) == 26
    assert Length.parse("1tokens").in_steps(**size) == 1  # a run makes one step at least


@given(
    batches=st.integers(1, 10_000), tokens=st.integers(1, 10**9), epochs=st.integers(1, 100)
)
def test_an_epoch_and_its_tokens_are_the_same_length(batches, tokens, epochs):
    of_epochs = Length(epochs, "epochs").in_steps(batches, tokens / batches)
    of_tokens = Length(epochs * tokens, "tokens").in_steps(batches, tokens / batches)
    assert of_epochs == of_tokens == epochs * batches
