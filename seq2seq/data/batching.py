"""Batches of similar length under a token budget, in an order that depends on the seed alone."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from torch.utils.data import Sampler


def token_batches(
    lengths: np.ndarray, max_tokens: int, order: np.ndarray | None = None
) -> list[np.ndarray]:
    """Cut sentences into batches of at most `max_tokens` padded positions on either side.

    Args:
        lengths: (n, 2) source and target lengths.
        max_tokens: most positions of a batch, padding included: rows x longest sentence.
        order: ties between equal lengths are broken by this permutation; None = as they stand.

    Returns:
        Arrays of sentence indices, shortest sentences first; each sentence stands in one.
    """
    longest = lengths.max(axis=1)
    order = np.arange(len(lengths)) if order is None else order
    # By the longer side, then by source: 6.5 % padding on Multi30k where random order has 55 %.
    order = order[np.lexsort((lengths[order, 0], longest[order]))]
    batches, start = [], 0
    for end in range(1, len(order) + 1):
        full = end == len(order) or longest[order[end]] * (end + 1 - start) > max_tokens
        if full:
            batches.append(order[start:end])
            start = end
    return batches


class TrainingBatches(Sampler[list[int]]):
    """An endless stream of batches, epoch after epoch, that can start anywhere.

    Batch number i is a function of (seed, i) alone: to resume, set `start`. The batches of
    one epoch are the same for any number of processes; rank r of w takes each w-th of them.

    Args:
        lengths: (n, 2) source and target lengths.
        max_tokens: budget of padded positions.
        seed: makes the order.
        rank, world_size: which share of the stream this process gets.
    """

    def __init__(
        self, lengths: np.ndarray, max_tokens: int, seed: int, rank: int = 0, world_size: int = 1
    ):
        self.lengths, self.max_tokens, self.seed = lengths, max_tokens, seed
        self.rank, self.world_size = rank, world_size
        self.start = 0  # batches this process has already consumed

    def epoch(self, epoch: int) -> list[np.ndarray]:
        """The shuffled batches of one epoch, for all ranks."""
        rng = np.random.default_rng((self.seed, epoch))
        order = rng.permutation(len(self.lengths))
        batches = token_batches(self.lengths, self.max_tokens, order)
        rng.shuffle(batches)
        return batches

    def __iter__(self) -> Iterator[list[int]]:
        position = self.start * self.world_size + self.rank
        epoch = first = 0  # `first` counts the batches before this epoch
        while True:
            batches = self.epoch(epoch)
            while position < first + len(batches):
                yield batches[position - first].tolist()
                position += self.world_size
            first += len(batches)
            epoch += 1
