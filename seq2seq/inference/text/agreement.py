"""Agreement: the word before an inserted phrase takes the form that fits the phrase.

A model that wrote "l'⟦1⟧" did not know that "familles" would take the place of ⟦1⟧. French elides
before a vowel, which a rule decides. It also inflects articles by gender and number, which no rule
of ours knows: so `fallback.py` asks the model which of the possible forms is the most likely.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import NamedTuple


class Forms(NamedTuple):
    """The forms of one word before a consonant and before a vowel; elided ones end with '."""

    consonant: Sequence[str]
    vowel: Sequence[str]


FRENCH = [
    Forms(["le", "la", "les"], ["l'", "les"]),
    Forms(["du", "de la", "des"], ["de l'", "des"]),
    Forms(["au", "à la", "aux"], ["à l'", "aux"]),
    Forms(["ce", "cette", "ces"], ["cet", "cette", "ces"]),
    *[Forms([f"{p}on", f"{p}a", f"{p}es"], [f"{p}on", f"{p}es"]) for p in "mts"],
    *[Forms([f"{w}e"], [f"{w}'"]) for w in (
        "d", "j", "m", "n", "s", "t", "qu", "jusqu", "lorsqu", "puisqu")],
    *[Forms(same, same) for same in (
        ["un", "une"], ["notre", "nos"], ["votre", "vos"], ["leur", "leurs"],
        ["quel", "quelle", "quels", "quelles"])],
]  # fmt: skip
PLURAL = {"les", "des", "aux", "ces", "mes", "tes", "ses", "nos", "vos", "leurs", "quels",
          "quelles"}  # fmt: skip
_FORMS_OF = {form: forms for forms in FRENCH for side in forms for form in side}
_LONGEST_FIRST = sorted(_FORMS_OF, key=len, reverse=True)
# A whole word and the space behind it, or an elided word with either apostrophe.
_ANY = "|".join(_LONGEST_FIRST).replace("'", "['’]")
_LAST_WORD = re.compile(rf"(?<![\w-])({_ANY})(?:(?<=['’])|\s+)$", re.IGNORECASE)
_VOWELS = "aeiouœæø"


def endings(before: str, phrase: str, language: str) -> list[str]:
    """Return the ways in which the text before a phrase can end, such as "dans la " and "dans le ".

    Args:
        before: the translation up to the phrase; if it fits the phrase, it is the first way.
        phrase: what follows it, such as a term.
        language: of the translation. The text stays as it is if the language is not French.
    """
    last = _LAST_WORD.search(before)
    if language != "fr" or last is None:
        return [before]
    written = last[1].lower().replace("’", "'")
    first = unicodedata.normalize("NFD", phrase)[0].lower()
    if not first.isalpha() and not (first.isdigit() and written.endswith("'")):
        return [before]
    forms = _FORMS_OF[written]
    # Some words with h or y elide, others do not.
    consonant = [] if first in _VOWELS else forms.consonant
    vowel = forms.vowel if first in _VOWELS or first in "hy" else []
    possible = dict.fromkeys([*consonant, *vowel])
    if re.split(r"\W", phrase)[0][-1:] not in ("s", "x", "z"):  # the phrase is no plural
        possible = {form: None for form in possible if form not in PLURAL} or possible
    words = sorted(possible, key=lambda form: form != written)
    if last[1][0].isupper():
        words = [word[0].upper() + word[1:] for word in words]
    return [before[: last.start()] + word + " " * (word[-1] != "'") for word in words]
