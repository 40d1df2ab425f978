"""French typography: apostrophes, guillemets and the spaces before ; : ! ? (Lexique des règles
typographiques en usage à l'Imprimerie nationale).

Models write what their training text had, mostly typewriter marks. This makes print of it; text
that is print already stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from seq2seq.inference.prose import in_prose
from seq2seq.inference.translation import Translation

NARROW, NO_BREAK = "\u202f", "\xa0"
_SPACES = "[ \t\xa0\u2009\u202f]"

_RULES = [
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


def french_typography(text: str) -> str:
    """A French text as it is printed; applied again, it changes nothing more.

    Tags, URLs, addresses, placeholders, entities and code stay as they are.
    """
    return in_prose(text, _typeset)


def _typeset(prose: str) -> str:
    for pattern, replacement in _RULES:
        prose = pattern.sub(replacement, prose)
    return prose


def printed(one: Translation) -> Translation:
    """A translation as it is printed, its links leading to the words that its words became."""
    text = french_typography(one.text)
    return replace(one, text=text, alignment=moved_links(one.alignment, one.text, text))


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
