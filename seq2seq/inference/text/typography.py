"""Typography: marks are read in the one form that most training texts have, and written as French
prints them (Lexique des règles typographiques en usage à l'Imprimerie nationale).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from seq2seq import text as forms
from seq2seq.inference.text.step import Step
from seq2seq.inference.text.tags import in_prose
from seq2seq.inference.translation import Translation

NARROW, NO_BREAK = "\u202f", "\xa0"
_SPACES = "[ \t\xa0\u2009\u202f]"

# Signs that are typed for an apostrophe, or for quotation marks: Don`t, ``so'', ,,so''.
_APOSTROPHE = re.compile("(?<=\\w)[`\xb4\u2032](?=\\w)|(?<=s)[`\xb4](?=\\s)")
_TYPED = re.compile("``|''|,,(?=\\w)|[\u201e\u2033]")

_PRINT = [
    (re.compile(r"(?<=\w)['\u02bc\u2018](?=\w)"), "’"),
    (re.compile(rf"\"(?={_SPACES}*\S)([^\"\n]*?)\""), "« \\1 »"),
    (re.compile(rf"“{_SPACES}*([^“”\n]*?){_SPACES}*”"), "« \\1 »"),
    (re.compile(rf"«{_SPACES}*(?=\S)"), f"«{NARROW}"),
    (re.compile(rf"(?<=\S){_SPACES}*»"), f"{NARROW}»"),
    # A mark after a word: not in 10:30, (!) or :-), nor alone.
    (re.compile(rf"(?<=[^\s(\[!?;:/]){_SPACES}*(?=[;!?]+(?:[\s)»”’\".,…\]]|\Z))"), NARROW),
    (re.compile(rf"(?<=[^\s(\[!?;:/]){_SPACES}*(?=:(?:[\s»]|\Z))"), NO_BREAK),
    (re.compile(rf"(?<=\d){_SPACES}(?=[%€$£°])"), NO_BREAK),
    (re.compile(r"\.\.\."), "…"),
]


class Typography(Step):
    """Reads plain marks; with `print_french` it writes those of print.

    Links, addresses, variables, code and markup stay as they are.
    """

    name = "typography"

    def __init__(self, languages: tuple[str, str] = ("en", "fr"), *, print_french: bool = False):
        self.prints = print_french and languages[1] == "fr"

    def before(self, text: str) -> tuple[str, None]:
        return (in_prose(text, plain) if plain(text) != text else text), None

    def after(self, result: Translation, state: None) -> Translation:
        """As it is printed, with links to the words that typography parts."""
        if not self.prints:
            return result
        text = french_typography(result.text)
        links = moved_links(result.alignment, result.text, text)
        return replace(result, text=text, alignment=links)


def plain(prose: str) -> str:
    """Typewriter apostrophes, quotation marks and dots, hyphens, and two lengths of dashes."""
    if prose.isascii() and "`" not in prose and "''" not in prose and ",," not in prose:
        return prose
    prose = _TYPED.sub('"', _APOSTROPHE.sub("'", prose))
    return forms.marks(forms.quotes(prose))


def french_typography(text: str) -> str:
    """A French text as it is printed; applied again, it changes nothing more."""
    return in_prose(text, _typeset)


def _typeset(prose: str) -> str:
    for pattern, replacement in _PRINT:
        prose = pattern.sub(replacement, prose)
    return prose


def moved_links(
    links: Sequence[tuple[int, int]], before: str, after: str
) -> list[tuple[int, int]]:
    """Links to the words of a text, as those of what typography made of it.

    It parts words, such as "non?", and changes signs, but neither joins words nor moves anything:
    both texts have as many characters that are no space, if an ellipsis counts as three.
    """
    if not links:
        return []
    pairs = dict(zip(_word_of_each(after), _word_of_each(before), strict=True))
    return [(s, new) for new, old in pairs.items() for s, t in links if t == old]


def _word_of_each(text: str) -> list[int]:
    """For each character that is no space the number of its word, as `str.split` finds them."""
    words = enumerate(text.replace("…", "...").split())
    return [number for number, word in words for _ in word]
