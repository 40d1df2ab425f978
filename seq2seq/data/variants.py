"""Variants of training pairs: in capitals, with typos, with symbols, with placeholders or terms.

Corpora are clean sentences, and a model that saw nothing else fails on what people type. A corpus
with `variants` gives some of its training pairs twice: as they are, and in another form. The text
itself decides which pairs, so the choice is the same in each epoch and on every machine.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seq2seq.data.annotations import placeholders, tags, terms
from seq2seq.data.cleaning import pair_key
from seq2seq.data.corpus import Pair
from seq2seq.data.noise import capitals, chat, heading, joined, plain, typos, unmarked
from seq2seq.data.symbols import symbols
from seq2seq.data.word_links import WordLinks

if TYPE_CHECKING:
    from seq2seq.data.sources import FileSource, HubSource

# Forms by what they need besides the pair: nothing, a random generator, or also word links.
_FIXED: dict[str, Callable[[str, str], Pair]] = {
    "capitals": capitals,
    "plain": plain,
    "heading": heading,
    "unmarked": unmarked,
    "chat": chat,
}
_DRAWN: dict[str, Callable[[str, str, random.Random], Pair]] = {"typos": typos}
_LINKED: dict[str, Callable[[str, str, random.Random, WordLinks], Pair]] = {
    "symbols": symbols,
    "placeholders": placeholders,
    "tags": tags,
    "terms": terms,
}


def varied(name: str, pair: Pair, before: Pair, seed: int, links: WordLinks | None) -> Pair:
    """Return a pair in another form, or unchanged if that form does not suit it.

    Args:
        name: of the form.
        pair: source and target.
        before: the pair before it in the corpus.
        seed: decides what is random.
        links: of the corpus; needed by some forms.
    """
    if name in _FIXED:
        return _FIXED[name](*pair)
    if name == "joined":
        return joined(before, pair)
    draw = random.Random(seed)
    if name in _DRAWN:
        return _DRAWN[name](*pair, draw)
    assert links is not None
    return _LINKED[name](*pair, draw, links)


@dataclass(frozen=True)
class MemberLinks:
    """Word links of a corpus, learned from its first file when they are first needed."""

    source: FileSource | HubSource

    @cached_property
    def learned(self) -> WordLinks:
        return WordLinks(self.source.pairs())


@dataclass(frozen=True)
class VariedSource:
    """A source of training text that gives some pairs a second time, in another form.

    Attributes:
        source: source of the original pairs.
        shares: share of the pairs that get each variant, by the variant's name.
        links: shared by the sources of a corpus.
    """

    source: FileSource | HubSource
    shares: Mapping[str, float]
    links: MemberLinks

    @property
    def member(self) -> str:
        return self.source.member

    @property
    def name(self) -> str:
        return self.source.name

    def pairs(self) -> Iterator[Pair]:
        shares = {name: share for name, share in self.shares.items() if share}
        links = self.links.learned if any(name in _LINKED for name in shares) else None
        before = ("", "")
        for pair in self.source.pairs():
            yield pair
            for name, share in shares.items():
                if (key := pair_key(*pair, salt=name)) < share * 2**64:
                    other = varied(name, pair, before, key, links)
                    if other != pair:
                        yield other
            before = pair

    def identity(self, memory: Path) -> list[Any]:
        return [*self.source.identity(memory), dict(self.shares)]
