"""Markup: tags, comments, entities and symbols that no sentence of a model's training had.

Before the search they are taken out, so that the model sees the words alone. Afterwards an element
encloses the words that looked at what it enclosed, and what stands alone, such as an image or an
emoji, goes before the word that looked at the one behind it.

Shapes: T units of the target, S of the source; a unit is a word, a punctuation mark or a thing that
is kept (`placeholders.py`).
"""

from __future__ import annotations

import html
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from html.parser import HTMLParser
from itertools import chain
from typing import Any

import numpy as np
import regex

from seq2seq.data.vocabularies import Vocabularies
from seq2seq.inference.text.placeholders import find_items
from seq2seq.inference.text.step import AttentiveStep, Ids
from seq2seq.inference.translation import Translation

Span = tuple[int, int]  # from one place to before another: of units, or of characters

VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param",
        "source", "track", "wbr"}  # fmt: skip
BLOCKS = {"address", "article", "aside", "blockquote", "body", "br", "dd", "div", "dl", "dt",
          "fieldset", "figcaption", "figure", "footer", "form", "h1", "h2", "h3", "h4", "h5", "h6",
          "head", "header", "hr", "html", "li", "main", "nav", "ol", "option", "p", "pre",
          "script", "section", "style", "table", "tbody", "td", "tfoot", "th", "thead", "title",
          "tr", "ul"}  # fmt: skip
BARE = {"async", "autofocus", "autoplay", "checked", "controls", "default", "defer", "disabled",
        "download", "hidden", "inert", "ismap", "itemscope", "loop", "multiple", "muted", "nowrap",
        "open", "readonly", "required", "reversed", "selected"}  # fmt: skip
DEEPEST = 100  # elements inside each other; tags of deeper ones stand alone

# What Unicode calls symbols, alone or composed; not those of ASCII, of −5 °C, or accents.
_SIGN = (
    r"[[\p{So}\p{Sk}\p{Sm}\p{Extended_Pictographic}²³¹½¼¾⅓⅔§¶†‡•‣※⁂‰]"
    r"--[\p{ASCII}°´¨¸¯¬−\ufffd]]"
)
_SYMBOL = regex.compile(
    rf"(?V1)(?:\p{{RI}}\p{{RI}}|[0-9#*]\ufe0f?\u20e3"
    rf"|{_SIGN}(?:[\ufe0e\ufe0f\p{{EMod}}\U000e0020-\U000e007f]|\u200d{_SIGN})*)+"
)
_ENTITY = regex.compile(r"&(?:#\d{1,7}|#[xX][\da-fA-F]{1,6}|[A-Za-z]\w{1,30});")
_QUOTED = regex.compile(r"""(?<![^\s(\[{/—–-])"(?=[^\s"])[^"\n]*(?<=[^\s"])"(?!\w)""")
_TAG_NAME = regex.compile(r"[A-Za-z][\w:.-]*")
_UNIT = regex.compile(r"\w+['’]?|[^\w\s]")


@dataclass(frozen=True)
class Token:
    """Some markup of a text.

    Attributes:
        start, end: where, in characters.
        name: of the element, in small letters; empty for what is none.
        opens, closes: whether it begins or ends an element that may enclose something.
    """

    start: int
    end: int
    name: str = ""
    opens: bool = False
    closes: bool = False


class _Tokenizer(HTMLParser):
    """Tags, comments and declarations of a text, by the rules of HTML."""

    def __init__(self, text: str):
        super().__init__(convert_charrefs=False)
        self.text, self.found = text, list[Token]()
        self.lines = [0, *(match.end() for match in regex.finditer("\n", text))]
        # None begins behind the last ">"; looking for its end again and again would take long.
        self.lines[1:] = [at + 1 for at in self.lines[1:]] if text else []
        self.feed(text[: text.rfind(">") + 1])
        self.close()

    def _add(self, end: int, name: str = "", opens: bool = False, closes: bool = False) -> None:
        if end > self._at():
            self.found.append(Token(self._at(), end, name, opens, closes))

    def _at(self) -> int:
        line, column = self.getpos()
        start: int = self.lines[line - 1]
        return start + column

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        whole = self.get_starttag_text() or ""
        # "a <b and c> d" compares; words without values are attributes if HTML has them.
        known = all(v is not None or n in BARE or "-" in n for n, v in attrs)
        if known and _TAG_NAME.fullmatch(tag):
            alone = tag in VOID or whole.endswith("/>")
            self._add(self._at() + len(whole), tag, opens=not alone)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        if _TAG_NAME.fullmatch(tag):
            end = self.text.find(">", self._at()) + 1
            self._add(end, tag, closes=tag not in VOID)

    def set_cdata_mode(self, elem: str, **options: Any) -> None:
        if regex.compile(f"</{elem}", regex.IGNORECASE).search(self.text, self._at()):
            super().set_cdata_mode(elem, **options)

    def handle_data(self, data: str) -> None:
        if self.cdata_elem:  # a script or a style sheet
            self._add(self._at() + len(data))

    def handle_comment(self, data: str) -> None:
        if self.text.startswith("<!--", self._at()):
            self._add(self.text.find("-->", self._at()) + 3)
        else:  # what browsers take for one, such as </>
            self._add(self.text.find(">", self._at()) + 1)

    def handle_decl(self, decl: str) -> None:
        self._add(self.text.find(">", self._at()) + 1)

    def handle_pi(self, data: str) -> None:
        self.handle_decl(data)

    def parse_marked_section(self, i: int, report: int = 1) -> int:
        return self.parse_bogus_comment(i)  # the inherited one stops at what it does not know


def find_tags(text: str) -> list[Token]:
    """The tags, comments and declarations of a text, from left to right."""
    return _Tokenizer(text).found if "<" in text and ">" in text else []


def find_markup(text: str, quotations: bool = False) -> list[Token]:
    """All that is no text: tags, symbols, and entities that stand for what is no letter or mark.

    Args:
        text: any.
        quotations: whether a pair of quotation marks is markup, too.
    """
    tags = find_tags(text)
    if text.isascii() and "&" not in text and not (quotations and '"' in text):
        return tags
    found = [*tags]
    for start, end in _outside(text, tags):
        found += [Token(*one.span()) for one in _SYMBOL.finditer(text, start, end)]
        for entity in _ENTITY.finditer(text, start, end):
            if not _readable(html.unescape(entity[0])):
                found.append(Token(*entity.span()))
    if quotations:
        for quoted in _QUOTED.finditer(blanked(text, tags)):
            found.append(Token(quoted.start(), quoted.start() + 1, '"', opens=True))
            found.append(Token(quoted.end() - 1, quoted.end(), '"', closes=True))
    return sorted(found, key=lambda token: token.start)


def _outside(text: str, tokens: Sequence[Token]) -> Iterable[Span]:
    """Where a text has no markup, from left to right."""
    edges = [0, *chain.from_iterable((token.start, token.end) for token in tokens), len(text)]
    return zip(edges[::2], edges[1::2], strict=True)


def _readable(character: str) -> bool:
    """Whether an entity is a letter or a mark, which the model should read."""
    return character.isalnum() or character in "&<>\"'‘’“”«»–—…"


def blanked(text: str, tokens: Iterable[Token], filler: str = " ") -> str:
    """A text with something in the place of each character of its markup."""
    parts, at = [], 0
    for token in tokens:
        parts += [text[at : token.start], filler * (token.end - token.start)]
        at = token.end
    return "".join([*parts, text[at:]])


def partners(tokens: Sequence[Token]) -> dict[int, int]:
    """For each tag that opens or closes an element the number of its other tag."""
    found: dict[int, int] = {}
    opened: list[int] = []
    names: Counter[str] = Counter()  # of what is open, which may be much
    for number, token in enumerate(tokens):
        if token.opens:
            opened.append(number)
            names[token.name] += 1
        elif token.closes and names[token.name]:
            # What was opened inside and never closed stays without a partner.
            while True:
                other = opened.pop()
                names[tokens[other].name] -= 1
                if tokens[other].name == token.name:
                    break
            found |= {number: other, other: number}
    return found


def stand_in(text: str) -> str:
    """A character of private use that a text of less than 100,000 of them does not hold."""
    codes = chain(range(0xE000, 0xF900), range(0xF0000, 0x10FFFE))
    return next(chr(code) for code in codes if chr(code) not in text)


def in_prose(text: str, change: Callable[[str], str]) -> str:
    """A text whose prose was changed, and its markup, links and placeholders were not.

    Args:
        text: any.
        change: sees one letter, which it has to leave alone, for each thing that is no prose.
    """
    kept = [(token.start, token.end) for token in find_markup(text)]
    kept += [one.span() for one in _ENTITY.finditer(text)]
    kept += [item.span for item in find_items(text) if not item.is_number]
    mark = stand_in(text)
    prose, originals, at = [], [], 0
    for start, end in sorted(kept, key=lambda span: (span[0], -span[1])):
        if start >= at:
            prose.append(text[at:start])
            originals.append(text[start:end])
            at = end
    first, *rest = change(mark.join([*prose, text[at:]])).split(mark)
    pairs = zip(originals, rest, strict=True)
    return first + "".join(original + after for original, after in pairs)


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


class Markup(AttentiveStep):
    """Takes markup out, and puts it back where attention tells.

    Args:
        vocabularies: cut what attention is asked of into tokens.
        normalise: what will be done to the text later; it must not move what is placed here.
        quotations: whether quotation marks are taken out, too: models that saw few of them lose
            the words inside.
        languages: any.
    """

    name = "markup"

    def __init__(
        self,
        vocabularies: Vocabularies,
        normalise: Callable[[str], str],
        quotations: bool = True,
        languages: tuple[str, str] = ("en", "fr"),
    ):
        super().__init__(languages)
        self.vocabularies, self.normalise = vocabularies, normalise
        self.quotations = quotations

    def before(self, text: str) -> tuple[str, Taken]:
        tokens = find_markup(text, self.quotations)
        escaped = _ENTITY.search(blanked(text, tokens)) is not None
        read = html.unescape if escaped else str
        if not tokens:
            clean = self.normalise(read(text))
            return clean, Taken(clean, [], escaped)
        mark = stand_in(text)  # for each token while the rest is normalised: its letters stay
        prose = (read(text[start:end]) for start, end in _outside(text, tokens))
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

    def looks(self, result: Translation, state: Taken) -> tuple[list[Ids], list[Ids]] | None:
        if not state.tags:
            return None
        sides = (self.vocabularies.source, state.clean), (self.vocabularies.target, result.text)
        source, target = ([*vocabulary.encode([text])] for vocabulary, text in sides)
        return [*source], [*target]

    def after(
        self, result: Translation, state: Taken, weights_TS: np.ndarray | None = None
    ) -> Translation:
        write = partial(html.escape, quote=False) if state.escaped else str
        if not state.tags:
            return result.with_text(write(result.text))
        units, source_units = _units(result.text), _units(state.clean)
        if not units or not source_units:
            tags = "".join(tag.text for tag in state.tags)
            return result.with_text(tags + write(result.text))
        if weights_TS is None:
            weights = _proportional(len(units), len(source_units))
        else:
            looked = self.looks(result, state)
            assert looked is not None
            ends = [v.ends(ids) for v, [ids] in zip(
                (self.vocabularies.source, self.vocabularies.target), looked, strict=True)]
            weights = unit_weights(state.clean, result.text, ends, weights_TS[:-1, :-1])
        writer = _Writer(state.clean, result.text, units, source_units, weights, write)
        return result.with_text(writer.whole(_elements(state.tags)))


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
