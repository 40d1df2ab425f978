"""Markup: it is taken out of a sentence before the search, and put into the translation afterwards.

So the model sees only words. In the translation, an element encloses the words that attend to the
words that it enclosed in the source. Markup that encloses nothing, such as an image or an emoji,
goes before the word that attends to the source word behind the markup.

Shapes: T target and S source units; a unit is a word, a punctuation mark or an item that is kept
(`placeholders.py`).
"""

from __future__ import annotations

import html
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
    unescaped,
)
from seq2seq.inference.translation import Translation

DEEPEST = 100  # deepest nesting of elements; tags of deeper ones stand alone

_UNIT = regex.compile(r"\w+['’]?|[^\w\s]")


@dataclass(frozen=True)
class Tag:
    """A piece of markup, and its place in the sentence without markup, in characters.

    Attributes:
        before, after: whether there was space on this side of it.
    """

    text: str
    at: int
    token: Token
    before: bool = False
    after: bool = False

    @property
    def is_space(self) -> bool:
        """Whether this is an entity for a space, such as `&nbsp;`."""
        return html.unescape(self.text).isspace()


@dataclass(frozen=True)
class Taken:
    """What `Markup` took out of a sentence.

    Attributes:
        clean: the sentence without markup.
        escaped: whether entities were decoded, so that the translation must have entities, too.
    """

    clean: str
    tags: list[Tag]
    escaped: bool


class Markup(Step):
    """The step that takes markup out, and puts it back where attention tells.

    Args:
        vocabularies: tokenize the texts between which attention is needed.
        normalise: the normalisation of a later step; it runs here, too, so that it cannot move the
            places of tags later.
        quotations: whether to take out quotation marks, too: models that saw few of them lose the
            words inside.
        symbols: whether to take out symbols, too, for models that have not learnt to copy them.
    """

    name = "markup"

    def __init__(
        self,
        vocabularies: Vocabularies,
        normalise: Callable[[str], str],
        quotations: bool = True,
        symbols: bool = True,
    ):
        self.vocabularies, self.normalise = vocabularies, normalise
        self.quotations, self.symbols = quotations, symbols

    def before(self, text: str) -> tuple[str, Taken]:
        tokens = find_markup(text, self.quotations, self.symbols)
        escaped = ENTITY.search(blanked(text, tokens)) is not None
        read = unescaped if escaped else str
        if not tokens:
            clean = self.normalise(read(text))
            return clean, Taken(clean, [], escaped)
        mark = stand_in(text)  # stands for each token, which normalisation must not change
        prose = (read(text[start:end]) for start, end in outside(text, tokens))
        clean, *pieces = self.normalise(mark.join(prose)).split(mark)
        clean = clean.lstrip()
        tags, adjoins = [], False  # whether a token comes directly after the one before
        for token, piece in zip(tokens, pieces, strict=True):
            space, more = clean[-1:] == " ", piece[:1] == " "
            if space and piece[:1] and not more and not (token.opens or piece[0].isalnum()):
                clean = clean[:-1]  # "job 👏!" without the emoji is "job!"
            own = text[token.start : token.end]
            tags.append(Tag(own, len(clean), token, space and not adjoins, more))
            adjoins = not piece
            if tags[-1].is_space and clean and not (space or more):
                clean, space = f"{clean} ", True  # else 10&nbsp;euros would become 10euros
                tags[-1] = replace(tags[-1], at=len(clean))
            clean += piece.lstrip(" ") if space or not clean else piece
        clean = clean.rstrip()
        tags = [replace(tag, at=min(tag.at, len(clean))) for tag in tags]
        return clean, Taken(clean, tags, escaped)

    def pieces_to_align(self, result: Translation, state: Taken) -> Pieces | None:
        if not state.tags:
            return None
        [(source, target)] = self.vocabularies.encode_pairs([(state.clean, result.text)])
        return [source], [target]

    def after(self, result: Translation, state: Taken, attention: Attention | None) -> Translation:
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


def unit_weights(
    source: str, target: str, ends: Sequence[Sequence[int]], weights: np.ndarray
) -> np.ndarray:
    """Turn weights (target tokens, source tokens) into weights (T, S) between units.

    Args:
        ends: the ends of the tokens of source and target, in characters.
    """
    rows, columns = _belongs(target, ends[1]), _belongs(source, ends[0])
    return np.asarray(rows @ weights @ columns.T)


def _belongs(text: str, ends: Sequence[int]) -> np.ndarray:
    """Return (units, tokens): 1 where a token has characters of a unit."""
    tokens = list(zip([0, *ends[:-1]], ends, strict=True))
    return np.array(
        # If a character spans several tokens, only the first gets it; the others are empty there.
        [[float(a < end and (start < b or end == b)) for start, end in tokens]
         for a, b in _units(text)]
    )  # fmt: skip


def _proportional(rows: int, columns: int) -> np.ndarray:
    """Return weights (rows, columns) that fall with the distance from the diagonal."""
    places = [(np.arange(count) + 0.5) / count for count in (rows, columns)]
    return np.asarray(np.exp(-max(rows, columns) * np.abs(places[0][:, None] - places[1])))


def _units(text: str) -> list[Span]:
    """Return the spans of a text's units; a link is one unit, so that no tag stands inside it."""
    found: list[Span] = []
    start = 0
    for item in find_items(text):
        found += [match.span() for match in _UNIT.finditer(text, start, item.span[0])]
        found.append(item.span)
        start = item.span[1]
    return found + [match.span() for match in _UNIT.finditer(text, start)]


@dataclass
class Element:
    """A tag with what it encloses; one without a partner encloses nothing."""

    start: int
    end: int
    opening: Tag
    closing: str = ""
    children: list[Element] = field(default_factory=list)


def _elements(tags: Sequence[Tag]) -> list[Element]:
    """Return the outermost elements, which hold the others as their children."""
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
        """Write the units from `low` to before `high`, with these elements among them."""
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
            elif opening.is_space and not (opening.before or opening.after):
                parts += [between.rstrip(), opening.text]  # instead of the space
            elif self._joins(element):
                word = between.rstrip()
                parts += [word, opening.text, between[len(word) :]]
            else:  # it stands alone, and keeps its spaces
                space = opening.before and not between[-1:].isspace() and (start > low or between)
                parts += [between, " " * bool(space), opening.text]
                parts += [" " * (opening.after and start < high)]
            at = self.units[end - 1][1] if end > start else before
        return "".join(parts) + self.write(self.target[at:last])

    def _placed(
        self, elements: Sequence[Element], low: int, high: int
    ) -> list[tuple[Span, Element]]:
        """Return each element with the span of its units, left to right; spans do not overlap."""
        taken: list[Span] = []
        placed = []
        # Elements that enclose no unit come last, so that none ends up inside another.
        for element in sorted(elements, key=lambda element: not self._inside(element)):
            span = self._span(element, low, high, taken)
            if span[0] < span[1]:
                taken.append(span)
            placed.append((span, element))
        return sorted(placed, key=lambda pair: pair[0])

    def _inside(self, element: Element) -> list[int]:
        """Return the source units that an element encloses; none if it stands alone."""
        if not element.closing:
            return []
        units = enumerate(self.source_units)
        return [i for i, (a, b) in units if a < element.end and element.start < b]

    def _is_mark(self, unit: int) -> bool:
        """Tell whether a unit of the target is no word."""
        return not self.target[self.units[unit][0]].isalnum()

    def _hyphenated(self, unit: int) -> bool:
        """Tell whether a unit of the target and the next are in one word, such as va-t'en."""
        (start, end), (after, last) = self.units[unit : unit + 2]
        elided = self.target[end - 1] in "'’" and self.target[:start].endswith("-")
        return end == after and (elided or "-" in (self.target[start:end], self.target[after:last]))

    def _joins(self, element: Element) -> bool:
        """Tell whether an element stands right behind a word, like the sign of a trademark."""
        tag = element.opening
        return tag.after and not tag.before and any(b == tag.at for _, b in self.source_units)

    def _span(self, element: Element, low: int, high: int, taken: Sequence[Span]) -> Span:
        """Return the units that belong to an element; start = end if it stands before a unit."""
        inside = self._inside(element)
        if len(inside) == len(self.source_units) and not taken:  # it encloses the whole sentence
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
                end += 1  # an elided word belongs to the next one
            if element.opening.token.name == '"':  # which stands in no word
                while start - 1 in free and self._hyphenated(start - 1):
                    start -= 1
                while end in free and self._hyphenated(end - 1):
                    end += 1
            return start, end
        first = sum(start < element.start for start, _ in self.source_units)
        words = [self.source[start].isalnum() for start, _ in self.source_units]
        if self._joins(element):
            place = low + int(self.weights_TS[low:high, first - 1].argmax()) + 1
        elif not any(words[:first]):  # markup before all words stays there
            place = low
        elif any(words[first:]):
            place = low + int(self.weights_TS[low:high, first].argmax())
        else:  # behind all words, but before the full stop, which may attend to anything
            place = high
            while first < len(words) and place > low and self._is_mark(place - 1):
                place -= 1
        place = next((b for a, b in taken if a < place < b), place)
        return place, place


def _best_run(shares_T: np.ndarray, free: Sequence[int]) -> Span:
    """Return the run of free units, at least one, with the largest sum of (share - 0.5)."""
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
