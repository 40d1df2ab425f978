"""Inline tags such as <b>: taken out before a sentence is translated, put back around its words.

A model sees the sentence as it saw those of its training, without markup. Where a tag goes in the
translation follows from attention: an element encloses the words that looked at what it enclosed.

Shapes: T units of the target, S of the source; a unit is a word, a punctuation mark or an item
(`items.py`).
"""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import chain

import numpy as np

from seq2seq.inference.items import find_items

TAG = re.compile(r"<(/?)([A-Za-z][\w:.-]*)(?:\s[^<>]*?)?(/?)>|<!--[^<>]*-->")
_VOID = {"br", "hr", "img", "input", "wbr", "area", "col", "embed", "link", "meta", "source"}
_DEEPEST = 100  # elements inside each other; tags of deeper ones stand alone
Span = tuple[int, int]  # from a unit to before another, or characters likewise

_UNIT = re.compile(r"\w+['’]?|[^\w\s]")


@dataclass(frozen=True)
class Tag:
    """A tag and its place in the sentence without tags, in characters.

    Attributes:
        spaced: whether there was space on both sides of it.
    """

    text: str
    at: int
    spaced: bool = False


@dataclass
class Element:
    """A tag with what it encloses; one without a partner encloses nothing."""

    start: int
    end: int
    opening: str
    closing: str = ""
    children: list[Element] = field(default_factory=list)


def partners(tags: Sequence[str]) -> dict[int, int]:
    """For each tag that opens or closes an element the number of its other tag."""
    found: dict[int, int] = {}
    open_tags: list[tuple[int, str]] = []
    open_names: Counter[str] = Counter()  # of open_tags, which may be many
    for number, tag in enumerate(tags):
        match = TAG.fullmatch(tag)
        if match is None or match[2] is None or match[3] or match[2].lower() in _VOID:
            continue
        name = match[2].lower()
        if not match[1]:
            open_tags.append((number, name))
            open_names[name] += 1
        # What was opened inside and never closed stays without a partner.
        elif open_names[name]:
            while True:
                opened, other = open_tags.pop()
                open_names[other] -= 1
                if other == name:
                    break
            found |= {number: opened, opened: number}
    return found


def stand_in(text: str) -> str:
    """A character of private use that a text of less than 100,000 of them does not hold."""
    return next(chr(code) for code in chain(range(0xE000, 0xF900), range(0xF0000, 0x10FFFE))
                if chr(code) not in text)  # fmt: skip


def take_tags(text: str, normalise: Callable[[str], str]) -> tuple[str, list[Tag]]:
    """A sentence without its tags, normalised, and the tags."""
    found = [match[0] for match in TAG.finditer(text)]
    if not found:
        return normalise(text), []
    mark = stand_in(text)  # for each tag while the rest is normalised: its letters stay
    clean, *pieces = normalise(TAG.sub(mark, text)).split(mark)
    clean = clean.lstrip()
    tags = []
    for tag, piece in zip(found, pieces, strict=True):
        spaced = clean.endswith(" ") and piece.startswith(" ")
        tags.append(Tag(tag, len(clean), spaced))
        clean += piece.lstrip(" ") if spaced or not clean else piece
    clean = clean.rstrip()
    return clean, [dataclasses.replace(tag, at=min(tag.at, len(clean))) for tag in tags]


def put_tags(tags: Sequence[Tag], source: str, target: str, weights_TS: np.ndarray | None) -> str:
    """A translation with the tags of its source.

    Args:
        tags: of the source, from left to right.
        source, target: the sentence and its translation, without tags.
        weights_TS: how much each unit of the target belongs to each of the source; None = those
            at the same place of the sentence belong together.
    """
    units, source_units = _units(target), _units(source)
    if not units or not source_units:
        return "".join(tag.text for tag in tags) + target
    if weights_TS is None:
        weights_TS = _proportional(len(units), len(source_units))
    writer = _Writer(source, target, units, source_units, weights_TS)
    before, after = target[: units[0][0]], target[units[-1][1] :]
    return before + writer.write(_elements(tags), 0, len(units)) + after


def _units(text: str) -> list[Span]:
    """Where the units of a text are: no tag may stand inside a link."""
    found: list[Span] = []
    start = 0
    for item in [*find_items(text), None]:
        end = item.start if item else len(text)
        found += [match.span() for match in _UNIT.finditer(text, start, end)]
        if item:
            found.append((item.start, item.end))
            start = item.end
    return found


def unit_weights(
    source: str, target: str, ends: tuple[Sequence[int], Sequence[int]], weights: np.ndarray
) -> np.ndarray:
    """Weights between units from those between tokens.

    Args:
        source, target: the texts.
        ends: of the tokens of each, in characters.
        weights: (tokens of the target, tokens of the source).
    """
    rows, columns = _belongs(target, ends[1]), _belongs(source, ends[0])
    return np.asarray(rows @ weights @ columns.T)


def _belongs(text: str, ends: Sequence[int]) -> np.ndarray:
    """(units, tokens) 1 where a token has characters of a unit."""
    tokens = list(zip([0, *ends[:-1]], ends, strict=True))
    return np.array(
        # Of a character of several tokens, all but the first are empty and end with it.
        [[float(a < end and (start < b or end == b)) for start, end in tokens]
         for a, b in _units(text)]
    )  # fmt: skip


def _proportional(rows: int, columns: int) -> np.ndarray:
    """(rows, columns) weights that fall with the distance from the diagonal."""
    places = [(np.arange(count) + 0.5) / count for count in (rows, columns)]
    return np.asarray(np.exp(-max(rows, columns) * np.abs(places[0][:, None] - places[1])))


def _elements(tags: Sequence[Tag]) -> list[Element]:
    """The outermost elements, with others inside them."""
    pairs = partners([tag.text for tag in tags])
    top: list[Element] = []
    levels = [top]
    for number, tag in enumerate(tags):
        other = pairs.get(number)
        if other is not None and other > number and len(levels) > _DEEPEST:
            del pairs[other]
            other = None
        if other is None:
            levels[-1].append(Element(tag.at, tag.at, tag.text + " " * tag.spaced))
        elif other > number:
            levels[-1].append(Element(tag.at, tags[other].at, tag.text, tags[other].text))
            levels.append(levels[-1][-1].children)
        else:
            levels.pop()
    return top


@dataclass
class _Writer:
    """Writes a translation with elements around its units."""

    source: str
    target: str
    units: list[Span]
    source_units: list[Span]
    weights_TS: np.ndarray

    def write(self, elements: Sequence[Element], low: int, high: int) -> str:
        """The units from `low` to before `high`, with these elements among them."""
        if low == high:
            return "".join(e.opening + self.write(e.children, 0, 0) + e.closing for e in elements)
        at, last = self.units[low][0], self.units[high - 1][1]
        parts = []
        for (start, end), element in self._placed(elements, low, high):
            before = self.units[start][0] if start < high else last
            inner = self.write(element.children, start, end)
            parts += [self.target[at:before], element.opening, inner, element.closing]
            at = self.units[end - 1][1] if end > start else before
        return "".join(parts) + self.target[at:last]

    def _placed(
        self, elements: Sequence[Element], low: int, high: int
    ) -> list[tuple[Span, Element]]:
        """Units of each element, none twice, from left to right."""
        taken: list[Span] = []
        placed = []
        # What encloses no unit comes last, lest it end up inside another.
        for element in sorted(elements, key=lambda element: not self._inside(element)):
            span = self._span(element, low, high, taken)
            if span[0] < span[1]:
                taken.append(span)
            placed.append((span, element))
        return sorted(placed, key=lambda pair: pair[0])

    def _inside(self, element: Element) -> list[int]:
        """The units of the source that an element encloses."""
        spans = enumerate(self.source_units)
        return [i for i, (a, b) in spans if a < element.end and element.start < b]

    def _span(self, element: Element, low: int, high: int, taken: Sequence[Span]) -> Span:
        """The units that belong to an element; start = end if it stands before a unit."""
        inside = self._inside(element)
        free = [i for i in range(low, high) if not any(a <= i < b for a, b in taken)]
        if inside and free:
            shares_T = self.weights_TS[:, inside].sum(axis=1)
            shares_T = shares_T / np.maximum(self.weights_TS.sum(axis=1), 1e-9)
            start, end = _best_run(shares_T, free)
            if self.source[self.source_units[inside[-1]][0]].isalnum():
                while end - start > 1 and not self.target[self.units[end - 1][0]].isalnum():
                    end -= 1  # the sentence's full stop is not part of its last word
            return start, end
        following = [i for i, (a, _) in enumerate(self.source_units) if a >= element.start]
        if not following:
            return high, high
        place = low + int(self.weights_TS[low:high, following[0]].argmax())
        place = next((b for a, b in taken if a < place < b), place)
        return place, place


def _best_run(shares_T: np.ndarray, free: Sequence[int]) -> Span:
    """The run of free units that has the most above one half, added up; one unit at least."""
    best, most = (free[0], free[0] + 1), -np.inf
    start, total, previous = free[0], 0.0, free[0] - 1
    for i in free:
        if total < 0 or i != previous + 1:
            start, total = i, 0.0
        total += shares_T[i] - 0.5
        previous = i
        if total >= most:
            best, most = (start, i + 1), total
    return best
