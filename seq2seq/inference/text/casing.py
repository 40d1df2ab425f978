"""Casing: the model reads a sentence in capitals in lower case; its translation gets capitals.

Models see few words in capitals, and cut them into letters that mean little to them.
"""

from __future__ import annotations

import re

from seq2seq.inference.text.step import Attention, Step
from seq2seq.inference.text.tags import in_prose
from seq2seq.inference.translation import Translation

_WORD = re.compile(r"[^\W\d_]+")
_BEGIN = re.compile(r"^\W*[^\W\d_]")
_I = re.compile(r"\bi\b")  # the one English word that is never in lower case


class Casing(Step):
    """The step for sentences in capitals of at least two words; one may be an abbreviation."""

    name = "casing"

    def __init__(self, languages: tuple[str, str] = ("en", "fr")):
        self.languages = languages

    def before(self, text: str) -> tuple[str, bool]:
        small = in_prose(text, self._small)
        return small, small != text

    def after(self, result: Translation, state: bool, attention: Attention | None) -> Translation:
        return result.with_text(in_prose(result.text, str.upper)) if state else result

    def _small(self, prose: str) -> str:
        if not prose.isupper() or len(_WORD.findall(prose)) < 2:
            return prose
        # Letters stay whose small form has another capital, such as the ohm sign.
        small = "".join(c.lower() if c.lower().upper() == c else c for c in prose)
        if self.languages[0] == "en":
            small = _I.sub("I", small)
        return _BEGIN.sub(lambda first: first[0].upper(), small)
