"""Agreement: the word before an inserted phrase takes the form that fits the phrase.

A model that wrote "l'⟦1⟧" did not know that "familles" would take the place of ⟦1⟧. French elides
before a vowel, which a rule decides. It also inflects articles by gender and number, which no rule
of ours knows: so `fallback.py` asks the model which of the possible forms is the most likely.
"""

from __future__ import annotations

import re
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
    *[Forms([f"{w}e"], [f"{w}'"]) for w in ("d", "j", "m", "n", "qu", "s", "t")],
    *[Forms(same, same) for same in (
        ["un", "une"], ["notre", "nos"], ["votre", "vos"], ["leur", "leurs"],
        ["quel", "quelle", "quels", "quelles"])],
]  # fmt: skip
_FORMS_OF = {form: forms for forms in FRENCH for side in forms for form in side}
_LONGEST_FIRST = sorted(_FORMS_OF, key=len, reverse=True)
# A whole word and the space behind it, or an elided word with either apostrophe.
_ANY = "|".join(_LONGEST_FIRST).replace("'", "['’]")
_LAST_WORD = re.compile(rf"(?<![\w'’-])({_ANY})(?:(?<=['’])|\s+)$", re.IGNORECASE)
_VOWELS = "aeiouàâäéèêëîïôöùûüœæ"


def fitting(before: str, phrase: str, language: str) -> list[str]:
    """Return the ways in which the text before a phrase can end, such as "dans la " and "dans le ".

    Args:
        before: the translation up to the phrase.
        phrase: what follows it, such as a term.
        language: of the translation. The text stays as it is if the language is not French.
    """
    last = _LAST_WORD.search(before)
    if language != "fr" or last is None or not phrase[:1].isalpha():
        return [before]
    forms = _FORMS_OF[last[1].lower().replace("’", "'")]
    first = phrase[0].lower()
    # Some words with h or y elide, others do not.
    possible = forms.vowel if first in _VOWELS else forms.consonant
    if first in "hy":
        possible = list(dict.fromkeys([*forms.consonant, *forms.vowel]))
    capital = last[1][0].isupper()
    words = [form[0].upper() + form[1:] if capital else form for form in possible]
    return [before[: last.start()] + word + " " * (word[-1] != "'") for word in words]
