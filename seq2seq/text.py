"""Normalisation of text: what is done to every text before it is cut into subwords.

Each step can be applied again without further change, and costs about a microsecond where there is
nothing to do. `normaliser` joins the steps that `cleaning.normalise` names. At the end: how tables
and a few of many items are shown.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TypeVar

Item = TypeVar("Item")

# Bytes 80 to 9F of Windows-1252 that were read as Latin-1: browsers show what was meant, and so do
# we ("c\x9cur" is "cœur"). It also keeps "â\x80\x99" visible as "â€™" to the filter `damaged`.
_WINDOWS = {code: bytes([code]).decode("cp1252", "ignore") for code in range(0x80, 0xA0)}
_BREAKS = dict.fromkeys(map(ord, "\t\n\v\f\r\x1c\x1d\x1e\x85\u2028\u2029"), " ")
_INVISIBLE = "\xad\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufeff"
_EMOJI = "\u2600-\u27bf\u2b00-\u2bff\ufe0f\U0001f000-\U0001faff"
# Not NUL, which is damage, and not the joiner of a compound emoji: of a man and a rocket it makes
# an astronaut.
_CONTROLS = re.compile(
    f"(?!(?<=[{_EMOJI}])\u200d[{_EMOJI}])[\x01-\x1f\x7f-\x9f\u2028\u2029{_INVISIBLE}]"
)

_APOSTROPHES = re.compile("[\u2018-\u201b\u02bc\xb4\uff07]")
_QUOTES = re.compile("[\u201c-\u201f\uff02]")
_ONE_FORM = {"…": "...", "‐": "-", "‑": "-", "−": "-", "‒": "–", "―": "—"}
_MANY_FORMS = re.compile("[…‐‑−‒―]")

# A quotation begins after a space, an opening sign or what stands for a tag (`text/tags.py` takes
# characters of private use), and ends where no word goes on.
_BEGINS = r"""(?<![^\s(\[{«'’/—–\ue000-\uf8ff-])"(?=\s*[^\s"])"""
_ENDS = r"""(?<=[^\s"])(\s*)"(?!\w)"""
_QUOTATION = re.compile(rf"""{_BEGINS}([^"]*){_ENDS}""")
# One that goes on in the next sentence, or comes from the one before; 5" are inches.
_HALF = re.compile(r"""^"(?=\s*\w)|(?<=[^\s\d"])\s?"$""")

_FRENCH_MARKS = re.compile("[?!:;«»%€$£¥°]")
_UNITS = re.compile(r"(?<=\d)\s*(?=(?:[%€$£¥](?!\w)|°[CF]\b))")
_INSIDE_GUILLEMETS = re.compile(r"(?<=«)\s*(?=[^\s])|(?<=[^\s])\s*(?=»)")
# A mark ends a word and something is over after it; not so in 10:30, http://x?y, :) and (!).
_HIGH_MARKS = re.compile(
    r"""(?P<entity>&\#?\w+;)
    | (?<=[^\s(\[{?!:;/]) \s* (?P<mark> [?!]+ (?=[\s)\]}»"'”’.,…*]|\Z) | [:;] (?=[\s»"”]|\Z) )""",
    re.VERBOSE,
)


def nfc(text: str) -> str:
    """One code point for é, however it was typed (Unicode normal form C)."""
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def controls(text: str) -> str:
    """Take out what cannot be seen; tabs and line breaks become a space.

    NUL and U+FFFD stay: they tell the filter `damaged` that something was lost.
    """
    if text.isprintable():
        return text
    clean = _CONTROLS.sub(_visible, text)
    # A zero-width character may have stood between a letter and its accent.
    return nfc(clean) if unicodedata.is_normalized("NFC", text) else clean


def _visible(match: re.Match[str]) -> str:
    code = ord(match[0])
    return _BREAKS.get(code) or _WINDOWS.get(code, "")


def spaces(text: str) -> str:
    """Single plain spaces between words (no-break and thin ones too), none at the ends."""
    if text.isprintable() and "  " not in text:  # of all spaces, only the plain one is printable
        return text.strip()
    return " ".join(text.split())


def quotes(text: str) -> str:
    """Typewriter apostrophes and double quotes; guillemets stay."""
    return text if text.isascii() else _QUOTES.sub('"', _APOSTROPHES.sub("'", text))


def marks(text: str) -> str:
    """Three full stops for an ellipsis, "-" for hyphens and minus, two lengths of dashes."""
    return text if text.isascii() else _MANY_FORMS.sub(lambda match: _ONE_FORM[match[0]], text)


def guillemets(text: str) -> str:
    """French quotation marks for typewriter ones, where it is clear what they enclose."""
    if '"' not in text:
        return text
    text = _QUOTATION.sub(r"«\1\2»", text)
    return _HALF.sub(_half_quoted, text) if text.count('"') == 1 else text


def _half_quoted(match: re.Match[str]) -> str:
    return "»" if match.start() else "«"


def french_spacing(text: str, narrow: str = " ", wide: str = " ") -> str:
    """One space before ? ! : ; %, signs of currencies and °C, and inside guillemets.

    Args:
        text: in French.
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
    "nfc": nfc,
    "controls": controls,
    "spaces": spaces,
    "quotes": quotes,
    "marks": marks,
    "guillemets": guillemets,
    "french_spacing": french_spacing,
}


def normaliser(steps: Sequence[str]) -> Callable[[str], str]:
    """The named `STEPS`, applied in this order; the result can be pickled."""
    return partial(_apply, tuple(STEPS[step] for step in steps))


def _apply(steps: tuple[Callable[[str], str], ...], text: str) -> str:
    for step in steps:
        text = step(text)
    return text


def evenly(items: Sequence[Item], count: int) -> list[Item]:
    """So many of the items (all, if there are fewer): the middles of as many equal parts."""
    count = min(count, len(items))
    return [items[(2 * part + 1) * len(items) // (2 * count)] for part in range(count)]


def markdown_table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Lines of a table whose head comes first, its columns aligned."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in (rows[0], ["-" * width for width in widths], *rows[1:]):
        cells = [f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)]
        yield f"| {' | '.join(cells)} |"
