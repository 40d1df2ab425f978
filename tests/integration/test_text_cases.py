"""What people sent that went wrong once, through the shipped model: what must hold of any model."""

from __future__ import annotations

import re

import pytest

from seq2seq import Translator
from seq2seq.inference.text.placeholders import find_items, lost


@pytest.fixture(scope="module")
def translator() -> Translator:
    return Translator.load(device="cpu")


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        # Markup
        (
            "Click <a title=\"a > b\" href='x'>the red button</a> now.",
            r".*<a title=\"a > b\" href='x'>[^<>]*rouge[^<>]*</a>.*",
        ),
        ("x <b and c> d", r"x [^a-z]*b et c.* d"),  # a comparison, no tag: its words are translated
        ("The house <!-- x > y --> is old.", r".* <!-- x > y --> .*"),
        ("<p>Hello <b>world</b>.<br>Bye!</p>", r"<p>.*<b>.*</b>.*<br>.*!</p>"),
        ("The caf&eacute; &copy; Tom &amp; Co is old.", r"(?i).*café.*&copy;.*"),
        # Emoji, symbols and amounts
        ("See you tomorrow 👍", r"À demain 👍"),
        ("Thanks ❤️", r"Merci ❤️"),
        ("Happy New Year 🎉🎉", r"(?:.*année|Joyeux Nouvel An) ?🎉🎉"),
        ("I love this city 😍!", r".*ville.*😍.*"),
        ("Settings → Privacy → Location", r"\w+ → \w+ → \w+"),  # three names, no sentence
        ("• Milk • Bread • Butter", r"• Lait • Pain • Beurre"),
        ("I love it " + "★" * 300, r".* ★{300}"),
        ("Use `&nbsp;` for a space.", r".*`&nbsp;`.*"),
        ("See you at 5 PM!", r".*\b17 h.*"),
        # Quotation marks and apostrophes
        ('I am "hungry".', r"[^\"]*\"[^\"]*\bfaim\"\."),
        # The shipped model leaves out the article, which would be right.
        ('"mine"', r"\"(le mien|la mienne|à moi|mien)\""),
        ("Don`t worry, we can`t lose.", r"[^`]*"),
        # Headings
        ("I. Introduction", r"I\. Introduction"),
    ],
)
def test_what_was_sent_comes_back_right(translator, text, pattern):
    [one] = translator.translate([text])
    assert re.fullmatch(pattern, one.text), one


@pytest.mark.parametrize(
    "text",
    [
        "It costs $1,000.50.",
        "It costs £30 or $1,234.56.",
        "It is -5°C (23°F) today.",
        "The race is 26.2 miles long.",
        "The party is on 12/25/2020.",
        "We need 30 chairs at 10:00.",
        "{name} bought a cat.",
        "See https://example.org/a/b?c=d&e=f for more.",
    ],
)
def test_what_has_to_be_kept_is_kept_in_a_whole_sentence(translator, text):
    [one] = translator.translate([text])
    assert lost(find_items(text), one.text) == []
    assert not any("in parts" in note for note in one.notes)


@pytest.mark.parametrize("mark", ["’", "`", "\xb4", "‘", "ʼ"])
def test_an_apostrophe_of_any_form_is_read_as_one(translator, mark):
    text = "Don't worry, we can't lose."
    plain, typed = translator.translate([text, text.replace("'", mark)])
    assert plain.text == typed.text


def test_terms_swallow_nothing(translator):
    texts = ["The old house is empty.", "She sold the old house last year."]
    empty, sold = translator.translate(texts, terms={"old house": "vieille demeure"})
    assert re.search(r"vieille demeure est vide", empty.text)
    assert re.search(r"vendu la vieille demeure .*(dernière|passée)", sold.text)


@pytest.mark.parametrize(
    ("text", "language"), [("Où est le chat ?", "French"), ("Ich liebe dich.", "German")]
)
def test_what_is_no_english_is_said(text, language, caplog):
    translator = Translator.load(device="cpu")  # which has not warned yet
    trusted, noted, left = (
        translator.translate([text], source_language=how)[0] for how in ("trust", "check", "leave")
    )
    assert not any(note.startswith("looks like ") for note in trusted.notes)
    assert f"looks like {language}" in noted.notes
    assert f"looks like {language}" in caplog.text
    assert left.text == text
