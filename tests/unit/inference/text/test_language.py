"""Texts that are surely in another language than the model reads."""

from __future__ import annotations

import subprocess
import sys

import pytest

from seq2seq.inference.text.language import foreign


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Où est le chat ?", "fr"),
        ("Ich liebe dich.", "de"),
        ("¿Dónde está la biblioteca de la ciudad?", "es"),
        ("<p>Le président a rencontré des ministres à <b>Paris</b> 👍</p>", "fr"),
        ("Bonjour", ""),  # too short
        ("C'est la vie.", ""),  # English says so, too
        ("They said déjà vu, en route to the café.", ""),
        ("Usti nad Labem region, Liberec region", ""),
        ("", ""),
        ("{name} 123 https://example.org/le/chat/est/la", ""),
    ],
)
def test_language_of_a_text(text, language):
    assert foreign(text) == language


def test_other_source_languages_are_not_judged():
    assert foreign("Où est le chat ?", "de") == ""


def test_plain_english_loads_no_identifier():
    code = (
        "import sys; from seq2seq.inference.text.language import foreign; "
        "foreign('The house is old.'); foreign('hello world'); sys.exit('py3langid' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
