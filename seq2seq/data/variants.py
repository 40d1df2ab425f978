"""Pairs as people also write them: in capitals, without a full stop, as a heading.

Corpora are clean sentences, and a model that saw nothing else fails on what people type. A corpus
with `variants` gives some of its training pairs twice: as they are, and in another form. Which
ones is decided by the text itself, so that it is the same in each epoch and on every machine.
"""

from __future__ import annotations

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


def capitals(source: str, target: str) -> Pair:
    """Everything in capitals, as in warnings and on forms."""
    return source.upper(), target.upper()


def plain(source: str, target: str) -> Pair:
    """Without capital at the beginning and full stop at the end, as in chats."""
    return _small(_without_stop(source), target), _small(_without_stop(target), source)


def heading(source: str, target: str) -> Pair:
    """English Capitals Of Headings and no full stop; French headings are written like sentences."""
    words = _without_stop(source).split(" ")
    title = [w if n and w in _SMALL else w[:1].upper() + w[1:] for n, w in enumerate(words)]
    return " ".join(title), _without_stop(target)


VARIANTS: dict[str, Callable[[str, str], Pair]] = {
    "capitals": capitals,
    "plain": plain,
    "heading": heading,
}


def _without_stop(text: str) -> str:
    return text[:-1].rstrip() if text.endswith(("!", ".")) and not text.endswith("..") else text


def _small(text: str, other: str) -> str:
    """Without its first capital, but for I, abbreviations, and names, which both texts share."""
    first = text.partition(" ")[0].partition("'")[0]
    keeps = first == "I" or not first[1:].islower() or first in other.split(" ")
    return text if keeps and first not in ("A", "À") else text[:1].lower() + text[1:]


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
