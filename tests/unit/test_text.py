"""Normalisation: what goes, what stays, and that doing it twice changes nothing more."""

from __future__ import annotations

import pickle
import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seq2seq.config import NORMALISATIONS, CleaningConfig
from seq2seq.text import STEPS, normaliser

# Characters that the steps care about, so that they meet more often than by chance.
TEXT = st.text(
    st.sampled_from(
        "aé1 \t\n\r.…,:;?!'\"«»()[]/&\0\ufffd\xa0\xad\u2009\u200b\u200d\u2028\u0301’“”\x92\x85"
        "‑−%€👩🚀\ufe0f"
    )
    | st.characters(),
    max_size=30,
)


def test_the_steps_are_those_that_can_be_configured():
    assert tuple(STEPS) == NORMALISATIONS


@pytest.mark.parametrize("step", STEPS)
@given(text=TEXT)
def test_a_step_done_twice_is_done_once(step, text):
    once = STEPS[step](text)
    assert STEPS[step](once) == once


@given(text=TEXT)
def test_all_steps_done_twice_are_done_once(text):
    everything = normaliser(NORMALISATIONS)
    assert everything(everything(text)) == everything(text)


@given(text=st.text(st.sampled_from("abc XYZ.,019-()"), max_size=30))
def test_plain_text_comes_back(text):
    text = " ".join(text.split())
    assert normaliser(NORMALISATIONS)(text) == text


@given(text=TEXT)
def test_controls_leaves_only_what_can_be_seen_and_what_tells_of_damage(text):
    kept = STEPS["controls"](text)
    bad = {"Cc", "Zl", "Zp"}
    assert not [char for char in kept if unicodedata.category(char) in bad and char != "\0"]
    for damage in "\0\ufffd":
        assert kept.count(damage) == text.count(damage)


def test_spaces_knows_every_space_of_unicode():
    every = [chr(code) for code in range(sys.maxunicode + 1)]
    for space in (char for char in every if unicodedata.category(char) == "Zs"):
        assert STEPS["spaces"](f"{space}a{space}{space}b{space}") == "a b"


@given(text=TEXT)
def test_spaces_does_what_split_and_join_do(text):
    assert STEPS["spaces"](text) == " ".join(text.split())


@pytest.mark.parametrize(
    ("step", "text", "expected"),
    [
        ("nfc", "e\u0301te\u0301", "été"),
        ("controls", "a\tb\nc\r\nd\u2028e\x85f", "a b c  d e f"),
        ("controls", "\ufeffco\xadop\u200bé\u200era\u202cti\u2060on\x07", "coopération"),
        ("controls", "e\u200b\u0301", "é"),  # what was NFC stays so
        ("controls", "l\x92\x9cuvre \x96 ici", "l’œuvre – ici"),  # Windows-1252 read as Latin-1
        ("controls", "lâ\x80\x99été", "lâ€™été"),  # for the filter `damaged`
        ("controls", "a\u200db 👩\u200d c\u200d🚀 👍\u200d\u200d🚀", "ab 👩 c🚀 👍🚀"),
        ("spaces", "\xa0a\u202f b\u2009\u3000c ", "a b c"),
        ("quotes", "l’été ‘so’ “on” „ja“ «\xa0oui\xa0»", "l'été 'so' \"on\" \"ja\" «\xa0oui\xa0»"),
        ("marks", "Oui… 3−2, co‑opérer ‒ ou ― non", "Oui... 3-2, co-opérer – ou — non"),
        ("guillemets", 'Il dit "oui", puis "non". "Ah!"', "Il dit «oui», puis «non». «Ah!»"),
        ("guillemets", "\" Qui ? \", ou l'\"Europe\" (\"UE\")", "« Qui ? », ou l'«Europe» («UE»)"),
        ("guillemets", '"Les dix meilleurs', "«Les dix meilleurs"),
        ("guillemets", 'et ils viennent."', "et ils viennent.»"),
        ("guillemets", 'un 5" et un écran de 27"', 'un 5" et un écran de 27"'),
        ("guillemets", 'a" b "c', 'a" b "c'),
        ("french_spacing", "5% de 30€, 3 $, 20°C, US$5", "5 % de 30 €, 3 $, 20 °C, US$5"),
        ("french_spacing", "Quoi? Non! Si; voilà:", "Quoi ? Non ! Si ; voilà :"),
        ("french_spacing", "Quoi\u202f?\xa0Oui  !", "Quoi ?\xa0Oui !"),
        ("french_spacing", "Quoi?! Vraiment???", "Quoi ?! Vraiment ???"),
        ("french_spacing", "«Oui», dit-il.", "« Oui », dit-il."),
        ("french_spacing", "«\xa0Oui?\u202f»", "« Oui ? »"),
        ("french_spacing", "Et...? Quoi?... (vraiment?)", "Et... ? Quoi ?... (vraiment ?)"),
        ("french_spacing", 'Il dit: "Viens!" Soit.', 'Il dit : "Viens !" Soit.'),
    ],
)  # fmt: skip
def test_what_a_step_changes(step, text, expected):
    assert STEPS[step](text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "À 10:30, ou 10:30:15.",
        "Voir http://exemple.fr/a?b=c;d et ftp://x.",
        "Super :) ou ;-) ou :-( enfin :p",
        "Super:)",
        "Euh... oui… bon.",
        "std::vector, c:\\dossier",
        "(!) [?] ?",
        "Dupont &amp; fils &#233; ici",
        "http://x/a%20b",
    ],
)
def test_french_spacing_leaves_other_uses_of_the_marks_alone(text):
    assert STEPS["french_spacing"](text) == text


def test_steps_are_applied_in_the_order_given():
    assert normaliser(["controls", "spaces"])("a\t\tb") == "a b"
    assert normaliser(["spaces", "controls"])("\u200b a") == " a"


@pytest.mark.parametrize(
    "text",
    [
        "👩\u200d🚀",
        "❤\ufe0f\u200d🔥",
        "👨🏽\u200d🚀",
        "🏴\U000e0067\U000e0062\U000e007f",
        "👍🏽",
        "1\ufe0f⃣",
        "🇫🇷",
    ],
)
def test_an_emoji_of_several_characters_stays_whole(text):
    assert normaliser(NORMALISATIONS)(f"Oui {text} non") == f"Oui {text} non"


@pytest.mark.parametrize("languages", [["en", "fr"], ["fr", "en"]])
def test_french_spacing_is_for_french_only(languages):
    config = CleaningConfig(languages=languages, normalise=["spaces", "french_spacing"])
    for side, language in enumerate(languages):
        expected = "Oh ?" if language == "fr" else "Oh?"
        assert normaliser(config.steps(side))(" Oh?") == expected


def test_a_normaliser_travels_to_another_process():
    clean = pickle.loads(pickle.dumps(normaliser(NORMALISATIONS)))
    assert clean(" Quoi\u202f? ") == "Quoi ?"
