"""What of a text is translated, piece by piece, and what stays around the pieces as it is."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain

from seq2seq.inference.items import find_items
from seq2seq.inference.sentences import sentences
from seq2seq.inference.splitting import split_text
from seq2seq.inference.tags import TAG, partners, stand_in

Span = tuple[int, int]

_LINE = re.compile("[^\n\r\v\f\x1c-\x1e\x85\u2028\u2029]+")
_BLOCK = re.compile(
    r"</?(?:p|br|hr|div|li|ul|ol|dl|dt|dd|h[1-6]|table|thead|tbody|tr|td|th|section|article|"
    r"blockquote|pre|html|body|head|title)(?:\s[^<>]*)?/?>",
    re.IGNORECASE,
)
_MARKER = re.compile(
    r"\s*(?:[-–—•*·‣◦▪●○>]+|\#{1,6}|\d{1,3}[.)]|[A-Za-z]\)|\([A-Za-z\d]{1,3}\)|\[[ xX]\])(?=\s)"
)
_LATIN = re.compile("[A-Za-zÀ-ÖØ-öø-ɏḀ-ỿ]")
FOREIGN = "no Latin letters: left as it is"
_MAY_END = re.compile(r"[.!?…。！？][^\w\s]{0,8}\s")


@dataclass(frozen=True)
class Layout:
    """A text as pieces and what stands before, between and after them.

    Attributes:
        pieces: to be translated.
        gaps: one more than pieces.
        notes: what had to be done to make pieces fit, and what is no piece though it has words.
    """

    pieces: list[str]
    gaps: list[str]
    notes: list[str] = field(default_factory=list)

    def fill(self, translations: Sequence[str]) -> str:
        """The text with translations in the places of the pieces."""
        parts = zip(self.gaps, [*translations, ""], strict=True)
        return "".join(chain.from_iterable(parts))

    def first_words(self, parts: Sequence[str]) -> list[int]:
        """The number of the word that each part begins in, if they stand in the places of pieces.

        Words are what `str.split` finds in the whole text.
        """
        numbers: list[int] = []
        words, inside = 0, False  # so far; whether the text may go on with the last of them
        for place, part in enumerate(chain.from_iterable(zip(self.gaps, parts, strict=False))):
            if place % 2:
                numbers.append(words - inside)
            if part:
                words += len(part.split()) - (inside and not part[0].isspace())
                inside = not part[-1].isspace()
        return numbers


def lay_out(
    text: str, length: Callable[[str], int], limit: int, *, split: bool, protect: bool
) -> Layout:
    """Find the pieces of a text.

    Args:
        text: any.
        length: of a piece in tokens, or any bound on it that is below `limit`; 0 if there is
            nothing to read.
        limit: most tokens of a piece, the end mark included.
        split: lines and sentences are pieces of their own; else only what does not fit is cut.
        protect: space around the text, list markers, tags around pieces, and what holds no
            letters of the Latin script stay as they are.
    """
    spans: list[Span] = [(0, len(text))]
    if split:
        spans = list(_lines(text, protect))
    if protect:
        spans = [_without_marker(text, span) for span in spans]
    if split:
        spans = [part for span in spans for part in _sentences(text, span)]
    tags = _Tags(text if protect else "")
    spans = [_trimmed(text, span, tags) for span in spans]
    # Tags are not read, and not cut: a letter that counts nothing stands in for theirs.
    mark = stand_in(text)
    masked = TAG.sub(lambda tag: mark * len(tag[0]), text) if protect else text

    def read(piece: str) -> int:
        return length(piece.replace(mark, ""))

    notes: list[str] = []
    pieces: list[Span] = []
    for start, end in spans:
        parts = split_text(masked[start:end], lambda part: read(part) < limit)
        if len(parts) > 1:
            too_long = f"longer than the model's {limit} tokens"
            notes.append(f"{too_long}: translated in {len(parts)} parts")
        for part in parts:
            start = masked.index(part, start)
            rest = _beside_items(part.replace(mark, " ")) if protect else part
            if read(part) and (not protect or _LATIN.search(rest)):
                pieces.append((start, start + len(part)))
            elif protect and FOREIGN not in notes and any(map(str.isalpha, rest)):
                notes.append(FOREIGN)
            start += len(part)
    if not pieces:
        return Layout([], [text], notes)
    edges = [0, *chain.from_iterable(pieces), len(text)]
    if not protect:
        edges[0], edges[-1] = edges[1], edges[-2]
    gaps = [text[a:b] for a, b in zip(edges[::2], edges[1::2], strict=True)]
    return Layout([text[a:b] for a, b in pieces], gaps, notes)


def _lines(text: str, protect: bool) -> Iterator[Span]:
    """Lines, and what block-level tags make lines of."""
    for line in _LINE.finditer(text):
        start, end = line.span()
        for tag in _BLOCK.finditer(text, start, end) if protect else ():
            yield start, tag.start()
            start = tag.end()
        yield start, end


def _without_marker(text: str, span: Span) -> Span:
    """A line without the bullet or number of a list, and without space before it."""
    start, end = span
    if marker := _MARKER.match(text, start, end):
        start = marker.end()
    return start, end


def _sentences(text: str, span: Span) -> Iterator[Span]:
    """The sentences of a line; those of a single one are not looked for."""
    start, end = span
    line = text[start:end]
    if not _MAY_END.search(line):
        yield span
        return
    # Tags are no part of the language; spaces in their places keep the places of all others.
    for sentence in sentences(TAG.sub(lambda tag: " " * len(tag[0]), line)):
        yield start, start + len(sentence)
        start += len(sentence)


def _beside_items(piece: str) -> str:
    """What there is to read beside links and placeholders."""
    items = find_items(piece)
    starts, ends = [0, *(item.end for item in items)], [*(item.start for item in items), None]
    return " ".join(piece[start:end] for start, end in zip(starts, ends, strict=True))


class _Tags:
    """The tags of a text, and which of them belong together."""

    def __init__(self, text: str):
        found = list(TAG.finditer(text))
        self.spans = [match.span() for match in found]
        self.partner = partners([match[0] for match in found])

    def within(self, start: int, end: int) -> range:
        """Numbers of the tags in a part of the text."""
        first, after = (bisect_left(self.spans, (place,)) for place in (start, end))
        return range(first, after)


def _trimmed(text: str, span: Span, tags: _Tags) -> Span:
    """A piece without space and tags around it, unless they enclose a part of it only."""
    start, end = _stripped(text, span)
    leading, trailing, at = [], [], start
    inside = tags.within(start, end)
    for i in inside:
        if tags.spans[i][0] != at:
            break
        leading.append(i)
        at, _ = _stripped(text, (tags.spans[i][1], end))
    at = end
    for i in reversed(inside[len(leading) :]):
        if tags.spans[i][1] != at:
            break
        trailing.append(i)
        _, at = _stripped(text, (start, tags.spans[i][0]))
    staying = set(inside) - {*leading, *trailing}
    taken = 0
    for i in leading:
        if tags.partner.get(i) in staying:
            break
        start = tags.spans[i][1]
        taken += 1
    staying.update(leading[taken:])
    for i in trailing:
        if tags.partner.get(i) in staying:
            break
        end = tags.spans[i][0]
    return _stripped(text, (start, end))


def _stripped(text: str, span: Span) -> Span:
    start, end = span
    while start < end and text[end - 1].isspace():
        end -= 1
    while start < end and text[start].isspace():
        start += 1
    return start, end
