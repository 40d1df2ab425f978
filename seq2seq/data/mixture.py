"""How often the corpora of a mixture are seen, and which of their pairs in which epoch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from seq2seq.config import DataConfig


@dataclass(frozen=True)
class Member:
    """A corpus of a mixture: pairs `first` up to `last`, `weight` times per epoch."""

    name: str
    first: int
    last: int
    weight: float = 1.0

    @property
    def size(self) -> int:
        """Pairs in an epoch."""
        return max(1, round(self.weight * (self.last - self.first)))

    def pairs_at(self, positions: np.ndarray, epoch: int, seed: int) -> np.ndarray:
        """The pairs at some of the `size` positions of an epoch.

        As many whole copies as the weight holds, and for its fraction a window of one fixed
        permutation that moves on with each epoch: in the long run all pairs are seen equally.
        """
        count = self.last - self.first
        whole, rest = divmod(self.size, count)
        pairs = positions % count
        in_rest = positions >= whole * count
        if in_rest.any():
            permutation = np.random.default_rng((seed, self.first)).permutation(count)
            pairs[in_rest] = permutation[(epoch * rest + pairs[in_rest]) % count]
        return self.first + pairs


def weigh_members(
    data: DataConfig,
    members: Sequence[tuple[str, int, int]],
    changed: Mapping[str, float] | None = None,
) -> list[Member]:
    """How often each corpus of a mixture is seen in an epoch.

    By `data.weights`; or by `data.temperature`, which makes a corpus of n pairs a share of
    n ** (1 / temperature) while an epoch keeps its size (Devlin 2018; Arivazhagan et al. 2019).

    Args:
        data: with these settings.
        members: name, first pair, last pair.
        changed: weights that count instead, by name; the others stay.
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
    """For the report: "member", "pairs", "weight" (times per epoch), "share" (of an epoch)."""
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
