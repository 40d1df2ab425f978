"""Training text that is read, cleaned, tokenised and batched while the model trains on it.

Nothing has to be prepared but the vocabulary. What a stream cannot do: drop duplicates, since it
never sees the whole corpus, and shuffle it as a whole: pairs are mixed within pools and files.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from dataclasses import dataclass
from itertools import chain, islice

import numpy as np
from torch.utils.data import IterableDataset

from seq2seq.config import CleaningConfig, DataConfig, TokenizerConfig
from seq2seq.data.batching import Budget, token_batches
from seq2seq.data.cleaning import Cleaner
from seq2seq.data.collate import Batch, collate
from seq2seq.data.corpus import Pair
from seq2seq.data.fingerprint import fingerprint
from seq2seq.data.sources import Source, check_chosen, evaluation_pairs, find_sources
from seq2seq.data.vocabularies import Vocabularies, given_vocabularies
from seq2seq.errors import ConfigError, DataError

log = logging.getLogger(__name__)

POOL = 32_768  # pairs that are sorted and shuffled together
OPEN = 16  # sources that are read at the same time
TURN = 64  # pairs that are taken from one before the next


@dataclass
class Pool:
    """Pairs of ids that were read together.

    Attributes:
        row: pairs of the epoch that were read before it.
        end: pairs of the epoch that were read with it.
        batches: row numbers into `ids`, shuffled.
    """

    epoch: int
    row: int
    end: int
    ids: tuple[list[list[int]], list[list[int]]]
    batches: list[np.ndarray]


class StreamedBatches(IterableDataset[Batch]):
    """An endless stream of batches from text that is read on the way.

    The batches depend on the files, the settings and the seed alone; rank r of w takes each w-th.
    """

    def __init__(
        self,
        sources: Sequence[Source],
        cleaner: Cleaner,
        vocabularies: Vocabularies,
        budget: Budget,
        max_length: int,
        seed: int,
        dropout: float = 0.0,
        pool: int = POOL,
    ):
        self.sources = list(sources)
        self.cleaner, self.vocabularies = cleaner, vocabularies
        self.budget, self.max_length, self.seed = budget, max_length, seed
        self.dropout, self.pool = dropout, pool
        self.rank, self.world_size = 0, 1
        self.start = {"epoch": 0, "row": 0, "batch": 0}
        self._passed: list[tuple[int, int, int]] = []  # epoch, row, batches of each pool

    @classmethod
    def open(
        cls,
        data: DataConfig,
        cleaning: CleaningConfig,
        tokenizer: TokenizerConfig,
        vocabularies: Vocabularies | None,
        max_length: int,
        seed: int,
    ) -> StreamedBatches:
        """Find the text, and learn a vocabulary from its beginning unless there is one.

        Raises:
            UserError: the text or the vocabulary cannot be read, or weights are not whole.
        """
        found = find_sources(data, "train")
        check_chosen(found, data)
        sources = [source for source in found for _ in range(_repeats(data, source.member))]
        evaluation = evaluation_pairs(data) if "leakage" in cleaning.filters else {}
        cleaner = Cleaner(cleaning, chain.from_iterable(evaluation.values()))
        vocabularies = vocabularies or given_vocabularies(tokenizer)
        if vocabularies is None:
            log.info("streaming   learning the vocabulary from %d pairs at most", tokenizer.sample)

            def sample() -> Iterator[Pair]:
                rng = np.random.default_rng(seed)
                return islice(_clean(_interleaved(sources, rng), cleaner), tokenizer.sample)

            if next(sample(), None) is None:
                raise DataError(f"data={data.name} has no usable train pair")
            vocabularies = Vocabularies.train(sample, tokenizer)
        budget = Budget(data.max_tokens, data.max_sentences, data.length_multiple)
        return cls(sources, cleaner, vocabularies, budget, max_length, seed, tokenizer.dropout)

    @property
    def fingerprint(self) -> str:
        """Of names and sizes of the files: their content is not known before it is read."""
        return fingerprint([source.looks() for source in self.sources])

    def at(self, place: dict[str, int] | None, rank: int, world_size: int) -> StreamedBatches:
        """The same stream for one of several ranks, from a place that `place` gave."""
        stream = copy(self)
        stream.start = place or self.start
        stream.rank, stream.world_size, stream._passed = rank, world_size, []
        return stream

    def __iter__(self) -> Iterator[Batch]:
        position = self.start["batch"] + self.rank
        for pool in self._ahead(self._pools()):
            self._passed.append((pool.epoch, pool.row, len(pool.batches)))
            while position < len(pool.batches):
                rows = pool.batches[position].tolist()
                sources, targets = ([side[row] for row in rows] for side in pool.ids)
                yield collate(sources, targets, self.budget.multiple)
                position += self.world_size
            position -= len(pool.batches)

    def place(self, used: int) -> dict[str, int]:
        """Where the stream stands after all ranks together have used some batches."""
        position = self.start["batch"] + used
        epoch, row = self.start["epoch"], self.start["row"]
        for pool_epoch, pool_row, batches in self._passed:
            epoch, row = pool_epoch, pool_row
            if position < batches:
                break
            position -= batches
        else:
            position += self._passed[-1][2] if self._passed else 0  # the next is not yet known
        return {"epoch": epoch, "row": row, "batch": position}

    def _ahead(self, pools: Iterator[Pool]) -> Iterator[Pool]:
        """Make the next pool in a thread while one is used."""
        with ThreadPoolExecutor(1) as thread:
            future = thread.submit(next, pools)
            while True:
                pool = future.result()
                future = thread.submit(next, pools)
                yield pool

    def _pools(self) -> Iterator[Pool]:
        epoch, row = self.start["epoch"], self.start["row"]
        while True:
            rng = np.random.default_rng((self.seed, epoch))
            pairs = islice(_interleaved(self.sources, rng), row, None)
            usable = 0
            while raw := list(islice(pairs, self.pool)):
                pool = self._pool(epoch, row, raw)
                usable += len(pool.batches)
                row = pool.end
                if pool.batches:
                    yield pool
            if not usable and not self.start["row"]:
                raise DataError(
                    "the stream has no usable pair: cleaning= and model.max_length leave nothing"
                )
            epoch, row = epoch + 1, 0

    def _pool(self, epoch: int, row: int, raw: list[Pair]) -> Pool:
        """Clean, tokenise and sort some pairs; a function of the seed and their place alone."""
        texts = list(_clean(iter(raw), self.cleaner))
        rng = random.Random(f"{self.seed} {epoch} {row}")
        pair = (self.vocabularies.source, self.vocabularies.target)
        sides = list(zip(*texts, strict=True)) or [(), ()]
        ids = [
            tokenizer.encode(list(side), self.dropout, rng)
            for side, tokenizer in zip(sides, pair, strict=True)
        ]
        lengths = np.array([[len(tokens) + 1 for tokens in side] for side in ids], np.int64).T
        usable = (lengths.min(axis=1, initial=2) > 1) & (lengths.max(axis=1) <= self.max_length)
        rows = np.flatnonzero(usable)
        order = np.random.default_rng((self.seed, epoch, row))
        batches = token_batches(lengths[rows], self.budget, order.permutation(len(rows)))
        order.shuffle(batches)
        return Pool(epoch, row, row + len(raw), (ids[0], ids[1]), [rows[b] for b in batches])


def _repeats(data: DataConfig, member: str) -> int:
    weight = data.weights.get(member, 1.0)
    if weight != int(weight) or data.temperature != 1:
        raise ConfigError(
            [
                "data.streaming=true does not know how large the members of a mixture are: give "
                "whole numbers as data.weights, and no data.temperature"
            ]
        )
    return int(weight)


def _clean(pairs: Iterator[Pair], cleaner: Cleaner) -> Iterator[Pair]:
    for raw in pairs:
        source, target, reason = cleaner(*raw)
        if reason is None:
            yield source, target


def _interleaved(sources: Sequence[Source], rng: np.random.Generator) -> Iterator[Pair]:
    """The pairs of all sources, some at a time from one of those that are open."""
    waiting = [sources[index] for index in rng.permutation(len(sources))]
    opened: list[Iterator[Pair]] = []
    while waiting or opened:
        while waiting and len(opened) < OPEN:
            opened.append(waiting.pop().pairs(streaming=True))
        chosen = int(rng.integers(len(opened)))
        taken = list(islice(opened[chosen], TURN))
        yield from taken
        if len(taken) < TURN:
            opened.pop(chosen)
