"""Typography: the model reads marks in the form that most training texts have; if asked, its
translations get marks as French prints them (Lexique des règles typographiques en usage à
l'Imprimerie nationale).
"""

from __future__ import annotations

import re

from seq2seq import text as forms
from seq2seq.inference.text.step import Attention, Step
from seq2seq.inference.text.tags import in_prose
from seq2seq.inference.translation import Translation

NARROW, NO_BREAK = "\u202f", "\xa0"

# Signs that are typed instead of an apostrophe or of quotation marks: Don`t, ``so'', ,,so''.
_APOSTROPHE = re.compile("(?<=\\w)[`\xb4\u2032](?=\\w)|(?<=s)[`\xb4](?=\\s)")
_TYPED = re.compile("(?<!`)``(?!`)|''|,,(?=\\w)|[\u201e\u2033]")
_INSIDE_WORD = re.compile(r"(?<=\w)'(?=\w)")


class PlainMarks(Step):
    """The step that makes marks plain. Links, addresses, variables, code and markup stay."""

    name = "typography"

    def before(self, text: str) -> tuple[str, None]:
        return (in_prose(text, plain) if plain(text) != text else text), None


class FrenchPrint(Step):
    """The step that writes marks as French prints them, in the parts that `PlainMarks` reads."""

    def after(self, result: Translation, state: str, attention: Attention | None) -> Translation:
        return result.with_text(french_typography(result.text))


def plain(prose: str) -> str:
    """Make marks plain: typewriter apostrophes, quotes and dots, hyphens, two lengths of dashes."""
    if prose.isascii() and "`" not in prose and "''" not in prose and ",," not in prose:
        return prose
    prose = _TYPED.sub('"', _APOSTROPHE.sub("'", prose))
    return forms.marks(forms.quotes(prose))


def french_typography(text: str) -> str:
    """Set a French text as it is printed; setting it again changes nothing more."""
    return in_prose(text, lambda prose: "\n".join(map(_typeset, prose.split("\n"))))


def _typeset(line: str) -> str:
    line = forms.french_spacing(forms.guillemets(forms.quotes(line)), NARROW, NO_BREAK)
    return _INSIDE_WORD.sub("’", line).replace("...", "…")
