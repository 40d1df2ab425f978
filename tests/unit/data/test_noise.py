"""Pairs as people type them: what goes, and that slips are in the source alone."""

from __future__ import annotations

import difflib
import random

import pytest

from seq2seq.data.noise import chat, joined, typos, unmarked


@pytest.mark.parametrize(
    ("pair", "expected"),
    [
        (("He left.", "Il est parti."), ("He left", "Il est parti")),
        (("Stop!", "Arrête !"), ("Stop", "Arrête")),
        (("Is it you?", "C'est toi ?"), ("Is it you", "C'est toi")),
        # A mark of one side alone stays, and so does what is left open.
        (("Is it you?", "C'est toi."), ("Is it you?", "C'est toi.")),
        (("He left...", "Il est parti..."), ("He left...", "Il est parti...")),
        (("Why :-)", "Pourquoi :-)"), ("Why :-)", "Pourquoi :-)")),
    ],
)
def test_unmarked(pair, expected):
    assert unmarked(*pair) == expected


def test_chat_has_neither_mark_nor_capital_but_for_names():
    assert chat("Where is it?", "Où est-ce ?") == ("where is it", "où est-ce")
    assert chat("Tom left.", "Tom est parti.") == ("Tom left", "Tom est parti")


def test_joined_makes_one_message_of_two_sentences():
    yes, no = ("Yes.", "Oui."), ("I do!", "Bien sûr !")
    assert joined(yes, no) == ("Yes. I do!", "Oui. Bien sûr !")
    for other in (("", ""), ("a word", "un mot"), ("Yes.", "oui")):
        assert joined(other, yes) == yes
        assert joined(yes, other) == other


@pytest.mark.parametrize("seed", range(200))
def test_a_slip_changes_a_letter_or_two_of_the_source(seed):
    pair = ("I don't remember the number of the house.", "Je ne sais plus le numéro de la maison.")
    source, target = typos(*pair, random.Random(seed))
    assert target == pair[1]
    assert difflib.SequenceMatcher(None, source, pair[0]).ratio() > 0.94
    assert typos(*pair, random.Random(seed)) == (source, target)


def test_slips_are_of_every_kind():
    made = {typos("We remember.", "", random.Random(seed))[0] for seed in range(300)}
    assert {"We rmeember.", "We rmember.", "We reemember.", "We rrmember."} <= made


@pytest.mark.parametrize(
    "text", ["", "12 + 7", "See www.example.com/help", "@anna #travel", "of it"]
)
def test_addresses_numbers_and_short_words_have_no_slips(text):
    made = {typos(text, "", random.Random(seed))[0] for seed in range(100)}
    assert made == {text}
