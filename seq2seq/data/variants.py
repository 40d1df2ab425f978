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

@dataclass(frozen=True)
class MemberLinks:
    """Word links of a corpus, learned from its first file when they are first needed."""

    source: FileSource | HubSource

    @cached_property
    def learned(self) -> WordLinks:
        return WordLinks(self.source.pairs())


Form = Callable[[Pair, Pair, random.Random, MemberLinks], Pair]


def _alone(form: Callable[[str, str], Pair]) -> Form:
    return lambda pair, before, draw, links: form(*pair)


def _linked(form: Callable[[str, str, random.Random, WordLinks], Pair]) -> Form:
    return lambda pair, before, draw, links: form(*pair, draw, links.learned)


# Each makes the other form of a pair, or returns a pair that the form does not suit. `before` is
# the pair before it in the corpus.
FORMS: dict[str, Form] = {
    "capitals": _alone(capitals),
    "plain": _alone(plain),
    "heading": _alone(heading),
    "unmarked": _alone(unmarked),
    "chat": _alone(chat),
    "joined": lambda pair, before, draw, links: joined(before, pair),
    "typos": lambda pair, before, draw, links: typos(*pair, draw),
    "symbols": _linked(symbols),
    "placeholders": _linked(placeholders),
    "tags": _linked(tags),
    "terms": _linked(terms),
}


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
        before = ("", "")
        for pair in self.source.pairs():
            yield pair
            for name, share in shares.items():
                if (key := pair_key(*pair, salt=name)) < share * 2**64:
                    other = FORMS[name](pair, before, random.Random(key), self.links)
                    if other != pair:
                        yield other
            before = pair

    def identity(self, memory: Path) -> list[Any]:
        return [*self.source.identity(memory), dict(self.shares)]
