"""Mixtures of corpora: how often an epoch sees each corpus, and which of its pairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from seq2seq.config import DataConfig

SHUFFLED = 2**24  # up to so many pairs are permuted one by one, in 64 MiB of memory
BLOCK = 1024  # neighbouring pairs of a larger corpus, which stay together


@dataclass(frozen=True)
class Member:
    """A corpus of a mixture: pairs `first` to `last` - 1, seen `weight` times per epoch."""

    name: str
    first: int
    last: int
    weight: float = 1.0

    @property
    def size(self) -> int:
        """Pairs in an epoch."""
        return max(1, round(self.weight * (self.last - self.first)))

    def pairs_at(self, positions: np.ndarray, epoch: int, seed: int) -> np.ndarray:
        """Return the pairs at some of the `size` positions of an epoch.

        An epoch has as many whole copies of the corpus as the weight allows. For the fraction of
        the weight, a window over one fixed permutation moves on with each epoch; so in the long
        run all pairs are seen equally often. Large corpora are permuted in blocks of neighbours.
        """
        count = self.last - self.first
        whole, rest = divmod(self.size, count)
        pairs = positions % count
        in_rest = positions >= whole * count
        if in_rest.any():
            size = 1 if count <= SHUFFLED else BLOCK
            block, inside = np.divmod((epoch * rest + pairs[in_rest]) % count, size)
            order = _order(count // size, seed, self.first)
            pairs[in_rest] = order[block].astype(np.int64) * size + inside
        return self.first + pairs


@lru_cache(maxsize=16)
def _order(blocks: int, *seed: int) -> np.ndarray:
    """Return a random order of the whole blocks; what is left after them stays there."""
    order = np.random.default_rng(seed).permutation(blocks)
    return np.append(order, blocks).astype(np.uint32)


def weigh_members(
    data: DataConfig,
    members: Sequence[tuple[str, int, int]],
    changed: Mapping[str, float] | None = None,
) -> list[Member]:
    """Set how often an epoch sees each corpus of a mixture.

    `data.weights` says so for a corpus that it names. For others, `data.temperature` decides: a
    corpus of n pairs gets a share that is proportional to n ** (1 / temperature), and the epoch
    keeps its size (Devlin 2018; Arivazhagan et al. 2019).

    Args:
        data: the settings.
        members: name, first pair, and the first pair after the corpus.
        changed: weights that replace those of the settings, by name; other weights stay.
    """
    named = {**data.weights, **(changed or {})}
    sizes = np.array([last - first for _, first, last in members], float)
    shares = sizes ** (1 / data.temperature)
    weights = np.ones(len(sizes))
    if data.temperature != 1:
        weights = shares / shares.sum() * sizes.sum() / np.maximum(sizes, 1)
    return [
        Member(name, first, last, named.get(name, float(weight)))
        for (name, first, last), weight in zip(members, weights, strict=True)
    ]


def mixture_figures(
    data: DataConfig, members: Sequence[tuple[str, int, int]]
) -> list[dict[str, Any]]:
    """Return "member", "pairs", "weight" (times per epoch) and "share" (of an epoch), to report."""
    weighed = weigh_members(data, members)
    total = sum(member.size for member in weighed)
    return [
        {
            "member": member.name,
            "pairs": member.last - member.first,
            "weight": round(member.weight, 4),
            "share": round(member.size / total, 4),
        }
        for member in weighed
    ]
