"""Markup: what is no text is taken out of a sentence, and put back where its words went.

Before the search it is taken out, so that the model sees the words alone. Afterwards an element
encloses the words that looked at what it enclosed, and what stands alone, such as an image or an
emoji, goes before the word that looked at the one behind it.

Shapes: T units of the target, S of the source; a unit is a word, a punctuation mark or a thing that
is kept (`placeholders.py`).
"""

from __future__ import annotations

import html
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import regex

from seq2seq.data.vocabularies import Vocabularies
from seq2seq.inference.text.placeholders import find_items
from seq2seq.inference.text.step import Attention, Pieces, Step
from seq2seq.inference.text.tags import (
    ENTITY,
    Span,
    Token,
    blanked,
    find_markup,
    outside,
    partners,
    stand_in,
)
from seq2seq.inference.translation import Translation

DEEPEST = 100  # elements inside each other; tags of deeper ones stand alone

_UNIT = regex.compile(r"\w+['’]?|[^\w\s]")


@dataclass(frozen=True)
class Tag:
    """Some markup, and its place in the sentence without any, in characters.

    Attributes:
        before, after: whether there was space on these sides of it.
    """

    text: str
    at: int
    token: Token
    before: bool = False
    after: bool = False


@dataclass(frozen=True)
class Taken:
    """What `Markup` took out of a sentence.

    Attributes:
        clean: the sentence without.
        tags: from left to right.
        escaped: whether entities were read, so that the translation has to have them, too.
    """

    clean: str
    tags: list[Tag]
    escaped: bool


class Markup(Step):
    """Takes markup out, and puts it back where attention tells.

    Args:
        vocabularies: cut what attention is asked of into tokens.
        normalise: what will be done to the text later; it must not move what is placed here.
        quotations: whether quotation marks are taken out, too: models that saw few of them lose
            the words inside.
    """

    name = "markup"

    def __init__(
        self,
        vocabularies: Vocabularies,
        normalise: Callable[[str], str],
        quotations: bool = True,
    ):
        self.vocabularies, self.normalise = vocabularies, normalise
        self.quotations = quotations

    def before(self, text: str) -> tuple[str, Taken]:
        tokens = find_markup(text, self.quotations)
        escaped = ENTITY.search(blanked(text, tokens)) is not None
        read = _unescaped if escaped else str
        if not tokens:
            clean = self.normalise(read(text))
            return clean, Taken(clean, [], escaped)
        mark = stand_in(text)  # for each token while the rest is normalised: its letters stay
        prose = (read(text[start:end]) for start, end in outside(text, tokens))
        clean, *pieces = self.normalise(mark.join(prose)).split(mark)
        clean = clean.lstrip()
        tags = []
        for token, piece in zip(tokens, pieces, strict=True):
            space, more = clean[-1:] == " ", piece[:1] == " "
            if space and piece[:1] and not more and not (token.opens or piece[0].isalnum()):
                clean = clean[:-1]  # "job 👏!" is "job!" without
            tags.append(Tag(text[token.start : token.end], len(clean), token, space, more))
            clean += piece.lstrip(" ") if space or not clean else piece
        clean = clean.rstrip()
        tags = [replace(tag, at=min(tag.at, len(clean))) for tag in tags]
        return clean, Taken(clean, tags, escaped)

    def pieces_to_align(self, result: Translation, state: Taken) -> Pieces | None:
        if not state.tags:
            return None
        [(source, target)] = self.vocabularies.encode_pairs([(state.clean, result.text)])
        return [source], [target]

    def after(
        self, result: Translation, state: Taken, attention: Attention | None = None
    ) -> Translation:
        write = partial(html.escape, quote=False) if state.escaped else str
        if not state.tags:
            return result.with_text(write(result.text))
        units, source_units = _units(result.text), _units(state.clean)
        if not units or not source_units:
            tags = "".join(tag.text for tag in state.tags)
            return result.with_text(tags + write(result.text))
        if attention is None:
            weights = _proportional(len(units), len(source_units))
        else:
            [source], [target] = attention.pieces
            ends = self.vocabularies.source.ends(source), self.vocabularies.target.ends(target)
            weights = unit_weights(state.clean, result.text, ends, attention.weights_TS[:-1, :-1])
        writer = _Writer(state.clean, result.text, units, source_units, weights, write)
        return result.with_text(writer.whole(_elements(state.tags)))


def _unescaped(text: str) -> str:
    """Entities as what they stand for; not the &copy of ?a=1&copy=2, which has no semicolon."""
    return str(ENTITY.sub(lambda entity: html.unescape(entity[0]), text))


def unit_weights(
    source: str, target: str, ends: Sequence[Sequence[int]], weights: np.ndarray
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
        # If a character spans several tokens, only the first gets it; the others are empty there.
        [[float(a < end and (start < b or end == b)) for start, end in tokens]
         for a, b in _units(text)]
    )  # fmt: skip


def _proportional(rows: int, columns: int) -> np.ndarray:
    """(rows, columns) weights that fall with the distance from the diagonal."""
    places = [(np.arange(count) + 0.5) / count for count in (rows, columns)]
    return np.asarray(np.exp(-max(rows, columns) * np.abs(places[0][:, None] - places[1])))


def _units(text: str) -> list[Span]:
    """Where the units of a text are: no tag may stand inside a link."""
    found: list[Span] = []
    start = 0
    for item in [*find_items(text), None]:
        end = item.start if item else len(text)
        found += [match.span() for match in _UNIT.finditer(text, start, end)]
        if item:
            found.append(item.span)
            start = item.end
    return found


@dataclass
class Element:
    """A tag with what it encloses; one without a partner encloses nothing."""

    start: int
    end: int
    opening: Tag
    closing: str = ""
    children: list[Element] = field(default_factory=list)


def _elements(tags: Sequence[Tag]) -> list[Element]:
    """The outermost elements, with others inside them."""
    pairs = partners([tag.token for tag in tags])
    top: list[Element] = []
    levels = [top]
    for number, tag in enumerate(tags):
        other = pairs.get(number)
        if other is not None and other > number and len(levels) > DEEPEST:
            del pairs[other]
            other = None
        if other is None:
            levels[-1].append(Element(tag.at, tag.at, tag))
        elif other > number:
            levels[-1].append(Element(tag.at, tags[other].at, tag, tags[other].text))
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
    write: Callable[[str], str]

    def whole(self, elements: Sequence[Element]) -> str:
        before, after = self.target[: self.units[0][0]], self.target[self.units[-1][1] :]
        middle = self._between(elements, 0, len(self.units))
        return self.write(before) + middle + self.write(after)

    def _between(self, elements: Sequence[Element], low: int, high: int) -> str:
        """The units from `low` to before `high`, with these elements among them."""
        if low == high:
            inside = ((e, self._between(e.children, 0, 0)) for e in elements)
            return "".join(e.opening.text + inner + e.closing for e, inner in inside)
        at, last = self.units[low][0], self.units[high - 1][1]
        parts = []
        for (start, end), element in self._placed(elements, low, high):
            before = self.units[start][0] if start < high else last
            between = self.write(self.target[at:before])
            opening = element.opening
            if element.closing:
                inner = self._between(element.children, start, end)
                parts += [between, opening.text, inner, element.closing]
            elif self._joins(element):
                word = between.rstrip()
                parts += [word, opening.text, between[len(word) :]]
            else:  # it stands alone, and keeps its distance
                space = opening.before and not between[-1:].isspace() and (start > low or between)
                parts += [between, " " * bool(space), opening.text]
                parts += [" " * (opening.after and start < high)]
            at = self.units[end - 1][1] if end > start else before
        return "".join(parts) + self.write(self.target[at:last])

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
        """The units of the source that an element encloses; none if it stands alone."""
        if not element.closing:
            return []
        first = bisect_left(self.source_units, element.start, key=lambda unit: unit[1])
        units = enumerate(self.source_units[first:], first)
        return [i for i, (a, b) in units if a < element.end and element.start < b]

    def _is_mark(self, unit: int) -> bool:
        """Whether a unit of the target is no word."""
        return not self.target[self.units[unit][0]].isalnum()

    def _joins(self, element: Element) -> bool:
        """Whether it stands right behind a word, as a sign of a trademark does."""
        tag = element.opening
        return tag.after and not tag.before and any(b == tag.at for _, b in self.source_units)

    def _span(self, element: Element, low: int, high: int, taken: Sequence[Span]) -> Span:
        """The units that belong to an element; start = end if it stands before a unit."""
        inside = self._inside(element)
        if len(inside) == len(self.source_units) and not taken:  # all of the sentence
            return low, high
        free = [i for i in range(low, high) if not any(a <= i < b for a, b in taken)]
        if inside and free:
            shares_T = self.weights_TS[:, inside].sum(axis=1)
            shares_T = shares_T / np.maximum(self.weights_TS.sum(axis=1), 1e-9)
            start, end = _best_run(shares_T, free)
            if self.source[self.source_units[inside[-1]][0]].isalnum():
                while end - start > 1 and self._is_mark(end - 1):
                    end -= 1  # the sentence's full stop is not part of its last word
            last = self.target[slice(*self.units[end - 1])]
            if last[-1] in "'’" and end in free and end < high:
                end += 1  # an elided word is no word without the next
            return start, end
        first = bisect_left(self.source_units, element.start, key=lambda unit: unit[0])
        words = [self.source[start].isalnum() for start, _ in self.source_units]
        if self._joins(element):
            place = low + int(self.weights_TS[low:high, first - 1].argmax()) + 1
        elif not any(words[:first]):  # what stands before all words does so again
            place = low
        elif any(words[first:]):
            place = low + int(self.weights_TS[low:high, first].argmax())
        else:  # behind all words, before the full stop, which may have looked anywhere
            place = high
            while first < len(words) and place > low and self._is_mark(place - 1):
                place -= 1
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
