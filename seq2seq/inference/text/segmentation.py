"""Segmentation: cut a text into sentences that fit into the model, and join their translations."""

from __future__ import annotations

import dataclasses
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, chain

from seq2seq.inference.text.language import LANGUAGES, foreign
from seq2seq.inference.text.placeholders import find_items
from seq2seq.inference.text.tags import BLOCKS, Span, Token, blanked, find_markup, stand_in
from seq2seq.inference.translation import Translation, joined

FOREIGN = "no Latin letters: left as it is"
LONGEST = 20_000  # characters that are cut into sentences at once
# Places to cut a piece that is too long, best first: sentence end, clause end, any space.
PLACES = (r"(?<=[.!?…])\s+", r"(?<=[,;:])\s+", r"\s+")

_LINE = re.compile("[^\t\n\r\v\f\x1c-\x1e\x85\u2028\u2029]+")
# "I. Introduction" is a heading, "I. Newton was here." is none.
_MARKER = re.compile(
    r"\s*(?:[-–—•*·‣◦▪●○>]+|\#{1,6}|\d{1,3}[.)]|[IVX]{2,6}\.|[A-Z](?=\.\s[^.!?]*\Z)\.|[A-Za-z]\)"
    r"|\([A-Za-z\d]{1,3}\)|\[[ xX]\]|\[\^[^\]\s]+\]:)(?=\s)"
)
_LATIN = re.compile("[A-Za-zÀ-ÖØ-öø-ɏḀ-ỿ]")
_MAY_END = re.compile(r"[.!?…。！？][^\w\s]{0,8}\s")


@dataclass(frozen=True)
class Layout:
    """A text as pieces to translate, and gaps before, between and after them.

    Attributes:
        pieces: the parts of the text to translate.
        gaps: the rest of the text; one more than pieces.
        notes: what was done to make pieces fit, and which words are in no piece.
    """

    pieces: list[str]
    gaps: list[str]
    notes: list[str] = field(default_factory=list)

    def fill(self, translations: Sequence[str]) -> str:
        """Return the text with translations in the places of the pieces."""
        parts = zip(self.gaps, [*translations, ""], strict=True)
        return "".join(chain.from_iterable(parts))

    def first_words(self, parts: Sequence[str]) -> list[int]:
        """Replace the pieces by these parts; return the number of the word that each begins in.

        Words are what `str.split` finds in the whole text.
        """
        both = chain.from_iterable(zip(self.gaps, parts, strict=False))
        starts = list(accumulate(map(len, both)))[::2]
        ends = [word.end() for word in re.finditer(r"\S+", self.fill(parts))]
        return [bisect_right(ends, start) for start in starts]


class Segmentation:
    """Cuts a text into pieces, which the other steps and the search see one by one.

    Args:
        length: returns the tokens of a piece, or an upper bound if that is below `limit`, the most
            tokens of a piece with its end mark; 0 if there is nothing to read.
        split: whether to cut a text into lines and sentences; else only what does not fit is cut.
        protect: whether to leave as they are: space around the text, list markers, block-level
            tags, and parts without Latin letters.
        symbols: whether symbols are markup, which the model does not read.
        languages: of source and target; sentences end by the rules of the first.
        source_language: check: note a text that is surely in another language; leave: do not cut
            it into pieces, either; trust: do not look.
    """

    def __init__(
        self,
        length: Callable[[str], int],
        limit: int,
        *,
        split: bool = True,
        protect: bool = True,
        symbols: bool = True,
        languages: tuple[str, str] = ("en", "fr"),
        source_language: str = "trust",
    ):
        self.length, self.limit, self.languages = length, limit, languages
        self.split, self.protect, self.symbols = split, protect, symbols
        self.source_language = source_language

    def before(self, text: str) -> Layout:
        other = foreign(text, self.languages[0]) if self.source_language != "trust" else ""
        if other and self.source_language == "leave":
            return Layout([], [text], [f"looks like {LANGUAGES[other]}: left as it is"])
        layout = self._cut(text)
        notes = [f"looks like {LANGUAGES[other]}"] if other else []
        return dataclasses.replace(layout, notes=[*notes, *layout.notes])

    def _cut(self, text: str) -> Layout:
        markup = find_markup(text, symbols=self.symbols) if self.protect else []
        spans = list(self._lines(text, markup)) if self.split else [(0, len(text))]
        if self.protect:
            spans = [_without_marker(text, span) for span in spans]
        # Markup is neither read nor cut: a letter that adds no length stands for its characters.
        mark = stand_in(text)
        masked = blanked(text, markup, mark)
        if self.split:
            spans = [part for span in spans for part in self._sentences(masked, mark, span)]
        found = [self._fitting(masked, mark, _stripped(text, span)) for span in spans]
        pieces = [piece for own, _ in found for piece in own]
        notes = list(dict.fromkeys(note for _, own in found for note in own))
        edges = [0, *chain.from_iterable(pieces), len(text)]
        if not self.protect:
            edges[0], edges[-1] = edges[1], edges[-2]
        gaps = [text[a:b] for a, b in zip(edges[::2], edges[1::2], strict=True)]
        return Layout([text[a:b] for a, b in pieces], gaps, notes)

    def after(self, parts: Sequence[list[Translation]], layout: Layout, n_best: int) -> Translation:
        """Return the best translation and its alternatives: the i-th joins the i-th of each piece.

        Args:
            parts: the translations of each piece, best first; at least one piece.
        """
        found: dict[str, Translation] = {}  # two token sequences may be the same text
        for rank in range(max(map(len, parts))):
            if len(found) == n_best:
                break
            chosen = [candidates[min(rank, len(candidates) - 1)] for candidates in parts]
            texts = [one.text for one in chosen]
            one = joined(chosen, layout.fill(texts)).with_notes(*layout.notes)
            pairs = list(zip(layout.pieces, texts, strict=True))
            one = dataclasses.replace(one, alignment=_links(layout, chosen), parts=pairs)
            found.setdefault(one.text, one)
        best, *others = found.values()
        return dataclasses.replace(best, alternatives=others)

    def _lines(self, text: str, markup: Sequence[Token]) -> Iterator[Span]:
        """Yield the spans of lines; a block-level tag ends a line, too."""
        blocks = [token for token in markup if token.name in BLOCKS]
        starts = [token.start for token in blocks]
        for line in _LINE.finditer(text):
            start, end = line.span()
            for token in blocks[bisect_left(starts, start) : bisect_left(starts, end)]:
                yield start, token.start
                start = token.end
            yield start, end

    def _sentences(self, masked: str, mark: str, span: Span) -> Iterator[Span]:
        """Yield the spans of a line's sentences; a line without inner ends is not searched."""
        start, end = span
        while start < end:  # a line may have megabytes
            part = masked[start : min(end, start + LONGEST)].replace(mark, " ")
            if not _MAY_END.search(part):
                yield start, start + len(part)
                start += len(part)
                continue
            import sentencex  # knows abbreviations, decimals and quotes; few texts need it

            found = list(sentencex.segment(self.languages[0], part))
            if "".join(found) != part:
                found = [part]
            if start + len(part) < end and len(found) > 1:
                found.pop()  # it may continue in the next part
            for sentence in found:
                yield start, start + len(sentence)
                start += len(sentence)

    def _fitting(self, masked: str, mark: str, span: Span) -> tuple[list[Span], list[str]]:
        """Return the parts of a sentence that fit and have something to translate, and notes."""

        def fits(part: str) -> bool:
            return self.length(part.replace(mark, "")) < self.limit

        start, end = span
        parts = split_text(masked[start:end], fits)
        notes, pieces = [], []
        if len(parts) > 1:
            too_long = f"longer than the model's {self.limit} tokens"
            notes.append(f"{too_long}: translated in {len(parts)} parts")
        for part in parts:
            start = masked.index(part, start)
            rest = _beside_items(part.replace(mark, " ")) if self.protect else part
            if self.length(part.replace(mark, "")) and (not self.protect or _LATIN.search(rest)):
                pieces.append((start, start + len(part)))
            elif self.protect and any(map(str.isalpha, rest)):
                notes.append(FOREIGN)
            start += len(part)
        return pieces, notes


def split_text(text: str, fits: Callable[[str], bool]) -> list[str]:
    """Cut a text into pieces that fit; a piece that is too long is cut near its middle.

    A word that is too long by itself is cut between characters.

    Args:
        fits: tells whether a piece is short enough; must be true for single characters.
    """
    if fits(text) or len(text) <= 1:
        return [text]
    for place in PLACES:
        cuts = [match for match in re.finditer(place, text) if 0 < match.start() < match.end()]
        cuts = [cut for cut in cuts if cut.end() < len(text)]
        if cuts:
            cut = min(cuts, key=lambda cut: abs(cut.start() - len(text) / 2))
            left, right = text[: cut.start()], text[cut.end() :]
            break
    else:
        left, right = text[: len(text) // 2], text[len(text) // 2 :]
    return split_text(left, fits) + split_text(right, fits)


def _links(layout: Layout, parts: Sequence[Translation]) -> list[tuple[int, int]]:
    """Turn the word links of pieces into word links of the text."""
    if not any(part.alignment for part in parts):
        return []
    firsts = layout.first_words(layout.pieces), layout.first_words([part.text for part in parts])
    each = zip(parts, *firsts, strict=True)
    return [(s + i, t + j) for part, i, j in each for s, t in part.alignment]


def _without_marker(text: str, span: Span) -> Span:
    """Return a line without the bullet or number of a list, and without space before it."""
    marker = _MARKER.match(text, *span)
    return (marker.end(), span[1]) if marker else span


def _beside_items(piece: str) -> str:
    """Blank the links, placeholders and numbers of a piece; words of other scripts stay."""
    items = (item for item in find_items(piece) if item.kind != "script")
    return blanked(piece, (Token(*item.span) for item in items))


def _stripped(text: str, span: Span) -> Span:
    part = text[slice(*span)].rstrip()
    return span[0] + len(part) - len(part.lstrip()), span[0] + len(part)
