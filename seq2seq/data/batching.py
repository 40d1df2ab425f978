"""Batches of similar length under a token budget, in an order that depends on the seed alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from seq2seq.data.mixture import Member
from seq2seq.length import rounding_step

POOL = 2**22  # pairs that are shuffled and sorted together; most corpora fit into one pool
BLOCK = 2**10  # neighbouring pairs that stay together if a corpus is larger than a pool
CHUNK = 2**22  # pairs whose lengths are checked at once; all pairs at once would take much memory
SENTENCE_MULTIPLE = 8  # with length_multiple=0: numbers of sentences are multiples of this


def padded_lengths(lengths: np.ndarray, multiple: int = 1) -> np.ndarray:
    """Round lengths up to a multiple; with 0, to that of `length.rounding_step`."""
    lengths = lengths.astype(np.int64)
    step: int | np.ndarray = multiple
    if multiple == 0:
        step = np.array([rounding_step(n) for n in range(lengths.max(initial=0) + 1)])[lengths]
    return -(-lengths // step) * step


@dataclass(frozen=True)
class Budget:
    """Limits of the size of a batch.

    Attributes:
        tokens: most positions of both sides together; padding counts, since it takes memory.
        sentences: most pairs; None = as many as the tokens allow.
        multiple: padded lengths are multiples of this; 0 = few shapes, see `padded_lengths`.
    """

    tokens: int
    sentences: int | None = None
    multiple: int = 1


def token_batches(lengths: np.ndarray, budget: Budget) -> list[np.ndarray]:
    """Cut pairs into batches of similar length.

    Pairs are sorted by the longer side, then by source: at 8,192 positions 4 % of Multi30k's
    batches are padding (random order: 55 %), and 1.4 % with 20 times as many sentences.

    Args:
        lengths: (n, 2) source and target lengths.
        budget: limits of a batch; a single pair may exceed them.

    Returns:
        Arrays of pair numbers, shortest sentences first, equal lengths in the given order; each
        pair is in one array.
    """
    padded = padded_lengths(lengths, budget.multiple)
    order = np.lexsort((padded[:, 0], padded.max(axis=1)))
    padded = padded[order]
    batches, start = [], 0
    while start < len(order):
        # The first pair is the shortest, so no more than this many fit.
        most = max(1, budget.tokens // int(padded[start].sum()))
        next_ones = padded[start : start + min(most, budget.sentences or most)]
        sizes = np.arange(1, len(next_ones) + 1)
        positions = np.maximum.accumulate(next_ones).sum(axis=1) * sizes
        size = max(1, int(np.searchsorted(positions, budget.tokens, side="right")))
        if budget.multiple == 0 and size > SENTENCE_MULTIPLE:
            size -= size % SENTENCE_MULTIPLE
        batches.append(order[start : start + size])
        start += size
    return batches


def unfit_pairs(lengths: Sequence[np.ndarray], most: int) -> np.ndarray:
    """Return the numbers of the pairs that are empty or too long in any segmentation, ascending.

    Args:
        lengths: (n, 2) source and target lengths of each segmentation, end marks included.
        most: longest side that is not too long.
    """
    found = [np.zeros(0, np.int64)]
    for first in range(0, len(lengths[0]), CHUNK):
        parts = [of[first : first + CHUNK] for of in lengths]
        shortest = np.min([part.min(axis=1) for part in parts], axis=0)
        longest = np.max([part.max(axis=1) for part in parts], axis=0)
        is_unfit = (shortest < 2) | (longest > most)  # an empty side has an end mark alone
        found.append(np.flatnonzero(is_unfit) + first)
    return np.concatenate(found)


class Usable:
    """The pairs that training uses: the first `size` pairs that are not left out, in their order.

    Only the numbers of left-out pairs are stored, so a corpus may have billions of pairs.

    Args:
        left_out: numbers of the pairs left out, ascending.
        size: how many pairs are used.
    """

    def __init__(self, left_out: np.ndarray, size: int):
        self.left_out, self.size = left_out, size
        self._used_before = left_out - np.arange(len(left_out))

    def __len__(self) -> int:
        return self.size

    def pairs(self, positions: np.ndarray) -> np.ndarray:
        """Return the numbers of the pairs at some positions among the used pairs."""
        return positions + np.searchsorted(self._used_before, positions, side="right")

    def before(self, pair: int) -> int:
        """Count the used pairs before a pair."""
        return min(self.size, pair - int(np.searchsorted(self.left_out, pair)))


class TrainingBatches:
    """An endless stream of batches, epoch after epoch, that can start anywhere.

    A batch is the number of its epoch, and the numbers of its pairs.

    Batch number i of epoch e is a function of (seed, e, i) alone. The batches are the same for
    any number of processes: rank r of w takes every w-th batch of the stream, so all ranks make
    equally many steps, and each pair of an epoch is used once. If an epoch ends within a round of
    the ranks, the next epoch begins in the same round.

    Args:
        lengths: (n, 2) source and target lengths of each segmentation; epochs take them in turn.
        budget: limits of a batch.
        seed: decides the order.
        members: corpora that make up an epoch; they count positions among the usable pairs.
        usable: the pairs that are used.
        rank, world_size: which share of the stream this process gets.
        place: where to start, as the method `place` returned it; None = at the beginning.
        pool: pairs that are shuffled and sorted together.
    """

    def __init__(
        self,
        lengths: Sequence[np.ndarray],
        budget: Budget,
        seed: int,
        members: Sequence[Member],
        usable: Usable,
        *,
        rank: int = 0,
        world_size: int = 1,
        place: Mapping[str, int] | None = None,
        pool: int = POOL,
    ):
        self.lengths, self.budget, self.seed, self.pool = lengths, budget, seed, pool
        self.members, self.usable = members, usable
        self.rank, self.world_size = rank, world_size
        self.start = dict(place or {"epoch": 0, "batch": 0})
        self._sizes: dict[int, int] = {}  # number of batches of each finished epoch

    def epoch(self, epoch: int) -> Iterator[list[np.ndarray]]:
        """Yield the shuffled batches of an epoch for all ranks, a list for each pool of pairs."""
        lengths = self.lengths[epoch % len(self.lengths)]
        for number, positions in enumerate(self._pools(epoch)):
            pairs = self.usable.pairs(positions)
            batches = [pairs[batch] for batch in token_batches(lengths[pairs], self.budget)]
            np.random.default_rng((self.seed, epoch, number)).shuffle(batches)
            yield batches

    def _pools(self, epoch: int) -> Iterator[np.ndarray]:
        """Yield the pairs of an epoch in random order, one pool at a time to limit memory."""
        ends = np.cumsum([member.size for member in self.members])
        total, rng = int(ends[-1]), np.random.default_rng((self.seed, epoch))
        block = 1 if total <= self.pool else min(BLOCK, self.pool)
        blocks = rng.permutation(-(-total // block))
        for first in range(0, len(blocks), max(1, self.pool // block)):
            chosen = blocks[first : first + max(1, self.pool // block), None] * block
            positions = (chosen + np.arange(block)).ravel()
            positions = positions[positions < total]
            if block > 1:
                rng.shuffle(positions)
            yield self._pairs_at(positions, ends, epoch)

    def _pairs_at(self, positions: np.ndarray, ends: np.ndarray, epoch: int) -> np.ndarray:
        owners = np.searchsorted(ends, positions, side="right")
        pairs = np.empty_like(positions)
        for number, member in enumerate(self.members):
            mine = owners == number
            inside = positions[mine] - (ends[number] - member.size)
            pairs[mine] = member.pairs_at(inside, epoch, self.seed)
        return pairs

    def __iter__(self) -> Iterator[tuple[int, np.ndarray]]:
        epoch, position = self.start["epoch"], self.start["batch"] + self.rank
        while True:
            size = 0
            for batches in self.epoch(epoch):
                size += len(batches)
                while position < len(batches):
                    yield epoch, batches[position]
                    position += self.world_size
                position -= len(batches)
            self._sizes[epoch] = size
            epoch += 1

    def place(self, used: int) -> dict[str, int]:
        """Return the stream's place after all ranks together have used `used` batches."""
        epoch, position = self.start["epoch"], self.start["batch"] + used
        while position >= self._sizes.get(epoch, position + 1):
            position -= self._sizes[epoch]
            epoch += 1
        return {"epoch": epoch, "batch": position}


class PhasedBatches:
    """A stream of batches that ends in another one: a run's last steps use other mixture weights.

    The most important text is best seen last, while the learning rate falls (Hu et al. 2024,
    MiniCPM, section 5). Each stream keeps its own place, so a lengthened run returns to `main`.

    Args:
        main, final: the streams, each from its place on.
        left: batches of all ranks until `final` begins.
    """

    def __init__(self, main: TrainingBatches, final: TrainingBatches, left: int):
        self.main, self.final, self.left = main, final, left

    def __iter__(self) -> Iterator[tuple[int, np.ndarray]]:
        yield from islice(self.main, self.left // self.main.world_size)
        yield from self.final

    def place(self, used: int) -> dict[str, Any]:
        """Return both places after all ranks together have used `used` batches."""
        of_main = min(used, self.left)
        return {**self.main.place(of_main), "final": self.final.place(used - of_main)}
