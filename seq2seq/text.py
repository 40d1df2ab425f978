"""Normalisation of text: the steps that every text passes before it is cut into subwords.

Each step is idempotent, and takes about a microsecond if it has nothing to change. `normaliser`
joins the steps that `cleaning.normalise` names. At the end: helpers that format tables and pick a
few of many items.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TypeVar

Item = TypeVar("Item")

# Bytes 80 to 9F of Windows-1252 that were read as Latin-1. Browsers show the intended character,
# and so do we ("c\x9cur" is "cœur"). Thereby "â\x80\x99" becomes "â€™", which the filter `damaged`
# sees.
_WINDOWS = {code: bytes([code]).decode("cp1252", "ignore") for code in range(0x80, 0xA0)}
_BREAKS = dict.fromkeys(map(ord, "\t\n\v\f\r\x1c\x1d\x1e\x85\u2028\u2029"), " ")
_VISIBLE = _WINDOWS | _BREAKS
_INVISIBLE = "\xad\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufeff"
_EMOJI = "\u2600-\u27bf\u2b00-\u2bff\ufe0f\U0001f000-\U0001faff"
# Without NUL, which is a sign of damage, and without the zero-width joiner of compound emoji: man,
# joiner and rocket are an astronaut.
_CONTROLS = re.compile(
    f"(?!(?<=[{_EMOJI}])\u200d[{_EMOJI}])[\x01-\x1f\x7f-\x9f\u2028\u2029{_INVISIBLE}]"
)

_APOSTROPHES = re.compile("[\u2018-\u201b\u02bc\xb4\uff07]")
_QUOTES = re.compile("[\u201c-\u201f\uff02]")
_ONE_FORM = {"…": "...", "‐": "-", "‑": "-", "−": "-", "‒": "–", "―": "—"}
_MANY_FORMS = re.compile("[…‐‑−‒―]")

# A quotation begins after a space, an opening sign or a placeholder for a tag (`text/tags.py` uses
# private-use characters), and ends where no word continues.
_BEGINS = r"""(?<![^\s(\[{«'’/—–\ue000-\uf8ff-])"(?=\s*[^\s"])"""
_ENDS = r"""(?<=[^\s"])(\s*)"(?!\w)"""
_QUOTATION = re.compile(rf"""{_BEGINS}([^"]*){_ENDS}""")
# A quotation that continues in the next sentence, or began in an earlier one. Not 5" (inches).
_HALF = re.compile(r"""^"(?=\s*\w)|(?<=[^\s\d"])\s?"$""")

_FRENCH_MARKS = re.compile("[?!:;«»%€$£¥°]")
_UNITS = re.compile(r"(?<=\d)\s*(?=(?:[%€$£¥](?!\w)|°[CF]\b))")
_INSIDE_GUILLEMETS = re.compile(r"(?<=«)\s*(?=[^\s])|(?<=[^\s])\s*(?=»)")
# A mark follows a word and ends a clause or sentence. Not so in 10:30, http://x?y, :) and (!).
_HIGH_MARKS = re.compile(
    r"""(?P<entity>&\#?\w+;)
    | (?<=[^\s(\[{?!:;/]) \s* (?P<mark> [?!]+ (?=[\s)\]}»"'”’.,…*]|\Z) | [:;] (?=[\s»"”]|\Z) )""",
    re.VERBOSE,
)


def nfc(text: str) -> str:
    """Bring text into Unicode normal form C: é is one code point, however it was typed."""
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def controls(text: str) -> str:
    """Remove invisible characters; a tab or a line break becomes a space.

    NUL and U+FFFD stay: they tell the filter `damaged` that some text was lost.
    """
    if text.isprintable():
        return text
    clean = _CONTROLS.sub(lambda match: _VISIBLE.get(ord(match[0]), ""), text)
    # A zero-width character may have stood between a letter and its accent.
    return nfc(clean) if unicodedata.is_normalized("NFC", text) else clean


def spaces(text: str) -> str:
    """Replace each run of spaces, no-break and thin ones too, by one; strip them at the ends."""
    if text.isprintable() and "  " not in text:  # the plain space is the only printable space
        return text.strip()
    return " ".join(text.split())


def quotes(text: str) -> str:
    """Replace apostrophes and double quotes by typewriter ones (' and "); guillemets stay."""
    return text if text.isascii() else _QUOTES.sub('"', _APOSTROPHES.sub("'", text))


def marks(text: str) -> str:
    """Write an ellipsis as "...", hyphens and minus as "-", other dashes as "–" or "—"."""
    return text if text.isascii() else _MANY_FORMS.sub(lambda match: _ONE_FORM[match[0]], text)


def guillemets(text: str) -> str:
    """Replace typewriter quotation marks by guillemets, where it is clear what they enclose."""
    if '"' not in text:
        return text
    text = _QUOTATION.sub(r"«\1\2»", text)
    if text.count('"') > 1:
        return text
    return _HALF.sub(lambda match: "»" if match.start() else "«", text)


def french_spacing(text: str, narrow: str = " ", wide: str = " ") -> str:
    """Put one space before ? ! : ; %, signs of currencies and °C, and inside guillemets.

    Args:
        text: a French text.
        narrow: the space before ? ! ; and inside guillemets.
        wide: the space before a colon, and between a number and its unit.
    """
    if not _FRENCH_MARKS.search(text):
        return text

    def spaced(match: re.Match[str]) -> str:
        mark = match["mark"]
        return match["entity"] or (wide if mark == ":" else narrow) + mark

    text = _UNITS.sub(wide, text)
    return _HIGH_MARKS.sub(spaced, _INSIDE_GUILLEMETS.sub(narrow, text))


STEPS: dict[str, Callable[[str], str]] = {
    step.__name__: step
    for step in (nfc, controls, spaces, quotes, marks, guillemets, french_spacing)
}


def normaliser(steps: Sequence[str]) -> Callable[[str], str]:
    """Return a function that applies the named `STEPS` in this order; it can be pickled."""
    return partial(_apply, tuple(STEPS[step] for step in steps))


def _apply(steps: tuple[Callable[[str], str], ...], text: str) -> str:
    for step in steps:
        text = step(text)
    return text


def evenly(items: Sequence[Item], count: int) -> list[Item]:
    """Pick `count` items at even distances, the middle of each of `count` equal parts.

    If there are at most `count` items, return all.
    """
    count = min(count, len(items))
    return [items[(2 * part + 1) * len(items) // (2 * count)] for part in range(count)]


def markdown_table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of a Markdown table with aligned columns; the first row is its head."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in (rows[0], ["-" * width for width in widths], *rows[1:]):
        cells = [f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)]
        yield f"| {' | '.join(cells)} |"
