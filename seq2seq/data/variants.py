"""Pairs as people also write them: in capitals, without a full stop, as a heading.

Corpora are clean sentences, and a model that saw nothing else fails on what people type. A corpus
with `variants` gives some of its training pairs twice: as they are, and in another form. Which
ones is decided by the text itself, so that it is the same in each epoch and on every machine.
"""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seq2seq.data.cleaning import pair_key
from seq2seq.data.corpus import Pair

if TYPE_CHECKING:
    from seq2seq.data.sources import FileSource, HubSource

# Words that English headings leave small, unless they stand first.
_SMALL = "a an and as at but by for from in of on or the to with".split()  # noqa: SIM905
# At the end, with the space that French puts before "!"; not that of "..." or "U.S.".
_STOP = re.compile(r"(?<![.!\s])(?<!\.\w)\s*(?:!+|\.)$")
_MARKS = string.punctuation + "«»…"


def capitals(source: str, target: str) -> Pair:
    """Everything in capitals, as in warnings and on forms."""
    return source.upper(), target.upper()


def plain(source: str, target: str) -> Pair:
    """Without capital at the beginning and full stop at the end, as in chats."""
    left, right = _without_stops(source, target)
    return _small(left, target), _small(right, source)


def heading(source: str, target: str) -> Pair:
    """English Capitals Of Headings and no full stop; French headings are written like sentences."""
    left, right = _without_stops(source, target)
    words = enumerate(left.split(" "))
    title = [w if n and w in _SMALL else w[:1].upper() + w[1:] for n, w in words]
    return " ".join(title), right


VARIANTS: dict[str, Callable[[str, str], Pair]] = {
    "capitals": capitals,
    "plain": plain,
    "heading": heading,
}


def _without_stops(source: str, target: str) -> Pair:
    """Both without full stop or exclamation mark; as they are if one ends in something else, such
    as ? or ..., as then the other would say less."""
    bare = _STOP.sub("", source), _STOP.sub("", target)
    for text, rest in zip((source, target), bare, strict=True):
        if rest == text and not text[-1:].isalnum():
            return source, target
    return bare


def _small(text: str, other: str) -> str:
    """Without its first capital, but for I, abbreviations, and names, which both texts share."""
    first = _words(text)[0]
    is_name = first.strip(_MARKS) in (word.strip(_MARKS) for word in _words(other))
    is_abbreviation = len(first) > 1 and not first[1:].islower()
    keeps = first == "I" or is_name or is_abbreviation
    return text if keeps and first not in ("A", "À") else text[:1].lower() + text[1:]


def _words(text: str) -> list[str]:
    return re.split("[ '’]", text)  # J'ai: J + ai


@dataclass(frozen=True)
class VariedSource:
    """A source of training text, some of whose pairs come a second time in another form.

    Attributes:
        source: where the pairs are.
        shares: how many of them have each variant, by its name.
    """

    source: FileSource | HubSource
    shares: Mapping[str, float]

    @property
    def member(self) -> str:
        return self.source.member

    @property
    def name(self) -> str:
        return self.source.name

    def pairs(self, streaming: bool = False) -> Iterator[Pair]:
        for pair in self.source.pairs(streaming):
            yield pair
            for name, share in self.shares.items():
                if pair_key(*pair, salt=name) < share * 2**64:
                    other = VARIANTS[name](*pair)
                    if other != pair:
                        yield other

    def identity(self, memory: Path) -> list[Any]:
        return [*self.source.identity(memory), dict(self.shares)]

    def looks(self) -> list[Any]:
        return [*self.source.looks(), dict(self.shares)]

    def text_bytes(self) -> int:
        return round(self.source.text_bytes() * (1 + sum(self.shares.values())))
