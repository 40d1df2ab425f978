"""Batches of similar length under a token budget, in an order that depends on the seed alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from seq2seq.data.mixture import Member

POOL = 2**22  # pairs that are shuffled and sorted together: all of them, in most corpora
BLOCK = 2**10  # neighbours that stay together when a corpus is larger than a pool
CHUNK = 2**22  # pairs that are judged together: all at once would take much memory
FEW = 8  # of few shapes: lengths between powers of two; numbers of sentences are multiples of it


def padded_lengths(lengths: np.ndarray, multiple: int = 1) -> np.ndarray:
    """Lengths rounded up to a multiple; 0 = the coarser the longer, 8 between powers of two.

    1 to 16 stay as they are; then come 18, 20 ... 32, 36, 40 ... 64, 72, 80 ... 128 and so on.
    """
    lengths = lengths.astype(np.int64)
    _, power = np.frexp(np.maximum(lengths, 1) - 1)  # 2 ** power is the least above length - 1
    step = multiple or 1 << np.maximum(power - 4, 0).astype(np.int64)
    rounded: np.ndarray = -(-lengths // step) * step
    return rounded


@dataclass(frozen=True)
class Budget:
    """How large a batch may be.

    Attributes:
        tokens: most positions of both sides together, padding included: what memory pays.
        sentences: most pairs; None = as many as the tokens allow.
        multiple: padded lengths are multiples of this; 0 = few shapes, see `padded_lengths`.
    """

    tokens: int
    sentences: int | None = None
    multiple: int = 1

    def padded(self, lengths: np.ndarray) -> np.ndarray:
        """Lengths rounded up."""
        return padded_lengths(lengths, self.multiple)

    def sentences_of(self, fitting: int) -> int:
        """How many of the pairs that fit make a batch."""
        few = self.multiple == 0 and fitting > FEW
        return fitting - fitting % FEW if few else max(1, fitting)


def token_batches(
    lengths: np.ndarray, budget: Budget, order: np.ndarray | None = None
) -> list[np.ndarray]:
    """Cut pairs into batches of similar length.

    Sorted by the longer side, then by source: at 8,192 positions 4 % of Multi30k's batches are
    padding (random order: 55 %), and 1.4 % where there are 20 times as many sentences.

    Args:
        lengths: (n, 2) source and target lengths.
        budget: a batch holds no more, unless it is one pair.
        order: ties between equal lengths are broken by this permutation; None = as they stand.

    Returns:
        Arrays of pair numbers, shortest sentences first; each pair stands in one.
    """
    order = np.arange(len(lengths)) if order is None else order
    padded = budget.padded(lengths[order])
    by_size = np.lexsort((padded[:, 0], padded.max(axis=1)))
    order, padded = order[by_size], padded[by_size]
    batches, start = [], 0
    while start < len(order):
        # The first pair is the shortest, so no more than this many fit.
        most = max(1, budget.tokens // int(padded[start].sum()))
        next_ones = padded[start : start + min(most, budget.sentences or most)]
        sizes = np.arange(1, len(next_ones) + 1)
        positions = np.maximum.accumulate(next_ones).sum(axis=1) * sizes
        size = budget.sentences_of(int(np.searchsorted(positions, budget.tokens, side="right")))
        batches.append(order[start : start + size])
        start += size
    return batches


@dataclass(frozen=True)
class BatchKey:
    """One batch to be made: pair numbers, in which epoch."""

    epoch: int
    pairs: np.ndarray


def unfit_pairs(lengths: Sequence[np.ndarray], most: int) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of the pairs that are empty, and of the others that are too long, in a segmentation.

    Args:
        lengths: (n, 2) source and target lengths of each segmentation, end marks included.
        most: longest side.
    """
    empty, too_long = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for first in range(0, len(lengths[0]), CHUNK):
        parts = [of[first : first + CHUNK] for of in lengths]
        is_empty = np.min([part.min(axis=1) for part in parts], axis=0) < 2  # the end mark
        is_long = np.max([part.max(axis=1) for part in parts], axis=0) > most
        empty.append(np.flatnonzero(is_empty) + first)
        too_long.append(np.flatnonzero(is_long & ~is_empty) + first)
    return np.concatenate(empty), np.concatenate(too_long)


class Usable:
    """The pairs that are used, in their order: the first `size` of those that are not left out.

    Only those that are left out are kept, so pairs may be billions.

    Args:
        left_out: numbers of pairs, ascending.
        size: how many are used.
    """

    def __init__(self, left_out: np.ndarray, size: int):
        self.left_out, self.size = left_out, size
        self._used_before = left_out - np.arange(len(left_out))

    def __len__(self) -> int:
        return self.size

    def pairs(self, positions: np.ndarray) -> np.ndarray:
        """The numbers of the pairs at some positions among those that are used."""
        found: np.ndarray = positions + np.searchsorted(self._used_before, positions, side="right")
        return found

    def before(self, pair: int) -> int:
        """How many used pairs stand before a pair."""
        return min(self.size, pair - int(np.searchsorted(self.left_out, pair)))


class TrainingBatches:
    """An endless stream of batches, epoch after epoch, that can start anywhere.

    Batch number i of epoch e is a function of (seed, e, i) alone. The batches are the same for
    any number of processes: rank r of w takes each w-th of the stream, so all ranks make equally
    many steps, and each pair of an epoch is used once. Where an epoch ends within a round of the
    ranks, the next one begins in the same round.

    Args:
        lengths: (n, 2) source and target lengths of each segmentation; epochs take turns.
        budget: of a batch.
        seed: makes the order.
        members: what an epoch consists of; None = each pair once.
        usable: the pairs that are used; members count within these. None = all.
        rank, world_size: which share of the stream this process gets.
        place: where to start, as `place` gave it; None = at the beginning.
        pool: pairs that are shuffled and sorted together.
    """

    def __init__(
        self,
        lengths: Sequence[np.ndarray],
        budget: Budget,
        seed: int,
        members: Sequence[Member] | None = None,
        *,
        usable: Usable | None = None,
        rank: int = 0,
        world_size: int = 1,
        place: Mapping[str, int] | None = None,
        pool: int = POOL,
    ):
        self.lengths, self.budget, self.seed, self.pool = lengths, budget, seed, pool
        all_pairs = Usable(np.zeros(0, np.int64), len(lengths[0]))
        self.usable = all_pairs if usable is None else usable
        self.members = [Member("all", 0, len(self.usable))] if members is None else list(members)
        self.rank, self.world_size = rank, world_size
        self.start = dict(place or {"epoch": 0, "batch": 0})
        self._sizes: dict[int, int] = {}  # batches of the epochs that were passed

    def epoch(self, epoch: int) -> Iterator[list[np.ndarray]]:
        """The batches of an epoch for all ranks, shuffled, one list for each pool of pairs."""
        lengths = self.lengths[epoch % len(self.lengths)]
        for number, positions in enumerate(self._pools(epoch)):
            pairs = self.usable.pairs(positions)
            batches = [pairs[batch] for batch in token_batches(lengths[pairs], self.budget)]
            np.random.default_rng((self.seed, epoch, number)).shuffle(batches)
            yield batches

    def _pools(self, epoch: int) -> Iterator[np.ndarray]:
        """The pairs of an epoch in random order, as many at a time as memory should hold."""
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

    def __iter__(self) -> Iterator[BatchKey]:
        epoch, position = self.start["epoch"], self.start["batch"] + self.rank
        while True:
            size = 0
            for batches in self.epoch(epoch):
                size += len(batches)
                while position < len(batches):
                    yield BatchKey(epoch, batches[position])
                    position += self.world_size
                position -= len(batches)
            self._sizes[epoch] = size
            epoch += 1

    def place(self, used: int) -> dict[str, int]:
        """Where the stream stands after all ranks together have used some batches."""
        epoch, position = self.start["epoch"], self.start["batch"] + used
        while position >= self._sizes.get(epoch, position + 1):
            position -= self._sizes[epoch]
            epoch += 1
        return {"epoch": epoch, "batch": position}


class MainThenFinal:
    """A stream of batches up to a place, then another: a run's last steps on other weights.

    The text that matters most is best seen last, while the rate falls (Hu et al. 2024, MiniCPM,
    section 5). Each part goes on from its own place: a run that is lengthened returns to the first.

    Args:
        main: from where it stands.
        final: likewise.
        left: batches of all ranks until the second begins.
    """

    def __init__(self, main: TrainingBatches, final: TrainingBatches, left: int):
        self.main, self.final, self.left = main, final, left

    def __iter__(self) -> Iterator[BatchKey]:
        yield from islice(self.main, self.left // self.main.world_size)
        yield from self.final

    def place(self, used: int) -> dict[str, Any]:
        """Where both stand after all ranks together have used some batches."""
        of_main = min(used, self.left)
        return {**self.main.place(of_main), "final": self.final.place(used - of_main)}
