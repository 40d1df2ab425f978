"""Variants of training pairs: in capitals, with typos, with symbols, with placeholders or terms.

Corpora are clean sentences, and a model that saw nothing else fails on what people type. A corpus
with `variants` gives some of its training pairs twice: as they are, and in another form. The text
itself decides which pairs, so the choice is the same in each epoch and on every machine.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
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


# Each makes the other form of a pair, or returns a pair that the form does not suit.
FORMS: dict[str, Callable[[str, str], Pair]] = {
    "capitals": capitals,
    "plain": plain,
    "heading": heading,
    "unmarked": unmarked,
    "chat": chat,
}
LINKED_FORMS: dict[str, Callable[[str, str, random.Random, WordLinks], Pair]] = {
    "symbols": symbols,
    "placeholders": placeholders,
    "tags": tags,
    "terms": terms,
}


@dataclass(frozen=True)
class VariedSource:
    """A source of training text that gives some pairs a second time, in another form.

    Attributes:
        source: source of the original pairs.
        shares: share of the pairs that get each variant, by the variant's name.
        links: returns the word links of the corpus, which are slow to learn.
    """

    source: FileSource | HubSource
    shares: Mapping[str, float]
    links: Callable[[], WordLinks]

    @property
    def member(self) -> str:
        return self.source.member

    @property
    def name(self) -> str:
        return self.source.name

    def pairs(self) -> Iterator[Pair]:
        before = ("", "")
        for pair in self.source.pairs():
            yield pair
            for name, share in self.shares.items():
                if share and (key := pair_key(*pair, salt=name)) < share * 2**64:
                    other = self._form(name, pair, before, random.Random(key))
                    if other != pair:
                        yield other
            before = pair

    def _form(self, name: str, pair: Pair, before: Pair, draw: random.Random) -> Pair:
        """Return another form of a pair; `before` is the pair before it in the corpus."""
        if name in FORMS:
            return FORMS[name](*pair)
        if name == "joined":
            return joined(before, pair)
        if name == "typos":
            return typos(*pair, draw)
        return LINKED_FORMS[name](*pair, draw, self.links())

    def identity(self, memory: Path) -> list[Any]:
        return [*self.source.identity(memory), dict(self.shares)]
