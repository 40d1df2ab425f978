"""Pairs as people also write them, and as translators are asked to keep things: in capitals, with
slips, with symbols, with placeholders and given terms.

Corpora are clean sentences, and a model that saw nothing else fails on what people type. A corpus
with `variants` gives some of its training pairs twice: as they are, and in another form. Which
ones is decided by the text itself, so that it is the same in each epoch and on every machine.
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

# By what they need beside the pair: nothing, a random generator, or that and word links.
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
    """A pair in another form, or as it is where that form does not suit it.

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
    """Word links of a corpus of several files, learned from the first when they are needed."""

    source: FileSource | HubSource

    @cached_property
    def learned(self) -> WordLinks:
        return WordLinks(self.source.pairs())


@dataclass(frozen=True)
class VariedSource:
    """A source of training text, some of whose pairs come a second time in another form.

    Attributes:
        source: where the pairs are.
        shares: how many of them have each variant, by its name.
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
