"""Texts in capitals: translated as if they were not, and put into capitals again.

Models see few of them, and cut their words into letters that mean little to them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from seq2seq.inference.prose import in_prose
from seq2seq.inference.translation import Translation

_WORD = re.compile(r"[^\W\d_]+")
_BEGIN = re.compile(r"^\W*[^\W\d_]")
_I = re.compile(r"\bi\b")  # the one word that is never small


def in_small_letters(text: str) -> str:
    """A sentence in capitals as sentences are written; any other text as it is.

    It has two words at least: one alone may be an abbreviation.
    """

    def change(prose: str) -> str:
        if not prose.isupper() or len(_WORD.findall(prose)) < 2:
            return prose
        return _BEGIN.sub(lambda first: first[0].upper(), _I.sub("I", prose.lower()))

    return in_prose(text, change)


def in_capitals_of(text: str, translations: Sequence[Translation]) -> list[Translation]:
    """The translations of a text, in capitals if it was; those that are the same then, once."""
    if in_small_letters(text) == text:
        return list(translations)
    found: dict[str, Translation] = {}
    for one in translations:
        large = in_prose(one.text, str.upper)
        found.setdefault(large, one.with_text(large))
    return list(found.values())
