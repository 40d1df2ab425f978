"""Sequences that an output must contain, and what it lacks of them.

A term may overlap with another, or stand inside it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import chain
from typing import NamedTuple

from seq2seq.decoding.marks import check_tokens

Tokens = tuple[int, ...]


class Progress(NamedTuple):
    """How many tokens complete an output, at most.

    Attributes:
        now: if it goes on with the term that it is in the middle of.
        after: each token that belongs to a term, once it has come next.
        other: any other token.
    """

    now: int
    after: dict[int, int]
    other: int


class Terms:
    """The sequences that one output must contain."""

    def __init__(self, sequences: Iterable[Sequence[int]]):
        self.counts = Counter(tuple(sequence) for sequence in sequences)
        check_tokens("a required term", list(self.counts))
        if () in self.counts:
            raise ValueError("a required term is empty: leave it out")
        # Asked for by the rule, by the candidates and by the allocation of one step.
        self.progress = lru_cache(maxsize=4096)(self._progress)

    def missing(self, output: Tokens) -> int:
        """Fewest tokens that are sure to complete an output."""
        return _to_write(self._left(output), output)

    def _progress(self, output: Tokens) -> Progress:
        left, after = self._left(output), {}
        for token in set(chain.from_iterable(left)):
            longer = (*output, token)
            met = Counter(term for term in left if longer[-len(term) :] == term)
            after[token] = _to_write(left - met, longer)
        return Progress(_to_write(left, output), after, _to_write(left, ()))

    def _left(self, output: Tokens) -> Counter[Tokens]:
        """Terms that an output lacks, and how often."""
        return self.counts - Counter({term: _count(term, output) for term in self.counts})


def _to_write(left: Counter[Tokens], output: Tokens) -> int:
    """Tokens of all terms, less those of the one that the output ends in the middle of."""
    begun = (
        k for term in left for k in range(1, len(term)) if output[-k:] == term[:k]
    )  # fmt: skip
    return sum(count * len(term) for term, count in left.items()) - max(begun, default=0)


def _count(term: Tokens, output: Tokens) -> int:
    """How often a term stands in an output."""
    size = len(term)
    return sum(output[i : i + size] == term for i in range(len(output) - size + 1))
