"""The data module, which makes batches of prepared pairs for training and validation."""

from __future__ import annotations

import logging
import signal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader

from seq2seq.config import CleaningConfig, DataConfig, TokenizerConfig
from seq2seq.data.batching import (
    Budget,
    PhasedBatches,
    TrainingBatches,
    Usable,
    padded_lengths,
    token_batches,
    unfit_pairs,
)
from seq2seq.data.collate import Batch, collate
from seq2seq.data.corpus import Pair
from seq2seq.data.mixture import Member, weigh_members
from seq2seq.data.pipeline import prepare
from seq2seq.data.prepared import Prepared
from seq2seq.data.shards import LONGEST, Shards
from seq2seq.data.sources import load_pairs
from seq2seq.data.vocabularies import Vocabularies
from seq2seq.errors import DataError, RunError
from seq2seq.text import normaliser

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Consumer:
    """The process that takes the batches, and its place in the run.

    Attributes:
        rank, world_size: of this process, among the processes that share the batches.
        accumulate: batches that a process takes for each step.
        first_step: steps that the run made before; the batches begin after them.
        max_steps: steps of the whole run.
        pin_memory: whether the batches are copied to a GPU.
    """

    rank: int = 0
    world_size: int = 1
    accumulate: int = 1
    first_step: int = 0
    max_steps: int = 0
    pin_memory: bool = False


class TranslationData:
    """Training and validation pairs as batches of token ids.

    Args:
        data: where the text is, and the batch budget.
        cleaning: how the text is cleaned.
        tokenizer: settings of the vocabulary, which is learned from the training split unless a
            file is given.
        max_length: longest sentence in tokens, end mark included; longer pairs are left out of
            training and counted.
        seed: decides the order of batches.
        train_pairs: train on only this many usable pairs from the start, each once an epoch;
            None = all.
        val_pairs: validate on only this many pairs from the start; None = all.
        val_on_train: validate on the training pairs, as the model reads them.
    """

    vocabularies: Vocabularies
    prepared: Prepared

    def __init__(
        self,
        data: DataConfig,
        cleaning: CleaningConfig,
        tokenizer: TokenizerConfig,
        max_length: int,
        seed: int,
        *,
        train_pairs: int | None = None,
        val_pairs: int | None = None,
        val_on_train: bool = False,
    ):
        self.data, self.cleaning, self.tokenizer = data, cleaning, tokenizer
        self.max_length, self.seed = max_length, seed
        multiple = 1 if data.length_multiple is None else data.length_multiple
        self.budget = Budget(data.max_tokens, data.max_sentences, multiple)
        self.most_train, self.most_val, self.val_on_train = train_pairs, val_pairs, val_on_train
        self.val_pairs: list[Pair] = []
        self._batches: TrainingBatches | PhasedBatches | None = None
        self.consumer = Consumer()
        self._place: dict[str, Any] | None = None  # from a checkpoint

    def prepare(self, vocabularies: Vocabularies | None = None) -> None:
        """Clean and tokenise the text, or find it prepared; call once, before the trainer starts.

        Pairs that the model cannot take are left out of training and of the validation loss.
        `val_pairs` keeps all pairs for BLEU, where long texts are translated in parts.

        Args:
            vocabularies: those of a resumed run; None = as the settings say.
        """
        if not self.val_on_train:  # before the long work, so that its faults show at once
            self.val_pairs = load_pairs(self.data, "val")[: self.most_val]
        self.prepared = prepare(self.data, self.cleaning, self.tokenizer, vocabularies)
        self.vocabularies = self.prepared.vocabularies
        self._open_shards()
        if self.val_on_train:  # the settings require one of both
            self.val_pairs = self._first_pairs(self.most_val or self.most_train or 0)
        self._tokenise_val()

    @cached_property
    def fingerprint(self) -> str:
        """Fingerprint of everything that decides the pairs of training and validation."""
        limits = {
            "train_pairs": self.most_train,
            "val_pairs": self.most_val,
            "val_on_train": self.val_on_train or None,
        }
        parts = [f"{name}={value}" for name, value in limits.items() if value is not None]
        return " ".join([self.prepared.report.fingerprint, *parts])

    @property
    def length_ratio(self) -> float:
        """Target tokens per source token, end marks included."""
        lengths, left_out = self.shards[0].lengths, self.usable.left_out
        last = int(self.usable.pairs(np.array([len(self.usable) - 1]))[0]) + 1
        all_, others = lengths[:last], lengths[left_out[left_out < last]]
        source, target = all_.sum(axis=0, dtype=np.int64) - others.sum(axis=0, dtype=np.int64)
        return float(round(target / source, 4))

    def _first_pairs(self, count: int) -> list[Pair]:
        """Return the first training pairs as text, decoded from their ids."""
        first = self.usable.pairs(np.arange(min(count, len(self.usable))))
        source, target = self.shards[0].ids(first)
        both = (self.vocabularies.source.decode(source), self.vocabularies.target.decode(target))
        return list(zip(*both, strict=True))

    def summary(self) -> str:
        """Say how many training and validation pairs there are."""
        train = sum(member.size for member in self.mixture)
        return f"{train:,} training and {len(self.val_lengths):,} validation pairs"

    def _open_shards(self) -> None:
        self.shards = self.prepared.shards()
        lengths = [shards.lengths for shards in self.shards]
        left_out = self._left_out(lengths, "train")
        size = len(lengths[0]) - len(left_out)
        self.usable = Usable(left_out, min(size, self.most_train or size))
        if self.most_train is not None:  # then members and their weights are ignored
            self.mixture: list[Member] = [Member(self.data.name, 0, len(self.usable))]
            return
        members = []
        for name, first, last in self.prepared.members:
            first, last = self.usable.before(first), self.usable.before(last)
            if first == last:
                raise DataError(
                    f"data.members.{name} has no pair of at most model.max_length="
                    f"{self.max_length} tokens: leave it out, or raise the limit"
                )
            members.append((name, first, last))
        self.mixture = weigh_members(self.data, members)
        self.final_mixture = weigh_members(self.data, members, self.data.final_weights)

    def _left_out(self, lengths: Sequence[np.ndarray], split: str) -> np.ndarray:
        """Return the numbers of pairs that are empty or too long, and warn how many there are."""
        count = len(lengths[0])
        left_out = unfit_pairs(lengths, min(self.max_length, LONGEST - 1))
        if len(left_out) == count:
            raise DataError(
                f"data={self.data.name} has no usable {split} pair among {count}: both "
                f"sides must hold text of at most model.max_length={self.max_length} tokens"
            )
        if len(left_out):
            log.warning(
                "%s: left out %d of %d pairs, which are empty or longer than %d tokens",
                *(split, len(left_out), count, self.max_length),
            )
        return left_out

    def _tokenise_val(self) -> None:
        normalise = (normaliser(self.cleaning.steps(side)) for side in (0, 1))
        ids = self.vocabularies.encode_pairs(self.val_pairs, *normalise)
        lengths = np.array([[len(side) + 1 for side in pair] for pair in ids], np.int64)
        left_out = self._left_out([lengths.reshape(-1, 2)], "val")
        usable = np.delete(np.arange(len(ids)), left_out)
        self.val_ids = [ids[pair] for pair in usable]
        self.val_lengths = lengths[usable]

    def train_dataloader(self, consumer: Consumer | None = None) -> DataLoader[Any]:
        """Return endless batches from the run's place on; `place` counts from there.

        Args:
            consumer: the process that takes them; None = one process, from its first step on.
        """
        self.consumer = consumer = consumer or Consumer()
        rank, world = consumer.rank, consumer.world_size
        self._batches = self._training_batches(rank, world)
        if consumer.max_steps and self.data.final_steps and self.most_train is None:
            left = max(0, consumer.max_steps - self.data.final_steps - consumer.first_step)
            left *= consumer.accumulate * world
            final = self._training_batches(rank, world, final=True)
            self._batches = PhasedBatches(self._batches, final, left)
        workers = self.data.num_workers
        return DataLoader(
            PreparedBatches(self.shards, self.budget.multiple),
            sampler=self._batches,
            batch_size=None,  # each key of the sampler is a whole batch already
            num_workers=workers,
            persistent_workers=workers > 0,
            worker_init_fn=_leave_signals_to_the_main_process,
            pin_memory=consumer.pin_memory,
            # A generator of its own, so that opening the loader does not change dropout's numbers.
            generator=torch.Generator(),
        )

    def _training_batches(
        self, rank: int = 0, world_size: int = 1, *, final: bool = False
    ) -> TrainingBatches:
        """Make the batches of the run's main part, or of its last steps, from the part's place."""
        place = self._place
        if final:  # from epoch 1: a short run has just seen epoch 0's part of members below 1
            place = (place or {}).get("final", {"epoch": 1, "batch": 0})
        return TrainingBatches(
            [shards.lengths for shards in self.shards],
            self.budget,
            self.seed,
            self.final_mixture if final else self.mixture,
            self.usable,
            rank=rank,
            world_size=world_size,
            place=place,
        )

    def epoch(self) -> tuple[int, int]:
        """Count the batches of the first epoch for all processes, and their real target tokens.

        Later epochs differ by a batch or so. Counting takes as long as an epoch's first batch.
        """
        lengths = self.shards[0].lengths
        batches = tokens = 0
        for pool in self._training_batches().epoch(0):
            batches += len(pool)
            tokens += sum(int(lengths[pairs, 1].sum()) for pairs in pool)
        return batches, tokens

    def examples(self) -> tuple[Batch, Batch]:
        """Return a batch of median size, and the largest, of the first epoch."""
        lengths = self.shards[0].lengths
        epoch = list(chain.from_iterable(self._training_batches().epoch(0)))
        multiple = self.budget.multiple
        longest = np.array([lengths[pairs].max(axis=0) for pairs in epoch])
        sizes = padded_lengths(longest, multiple).sum(axis=1) * list(map(len, epoch))
        order = np.argsort(sizes)
        batches_of = PreparedBatches(self.shards, multiple)
        return batches_of[0, epoch[order[len(order) // 2]]], batches_of[0, epoch[order[-1]]]

    def state_dict(self, step: int) -> dict[str, Any]:
        """Return the place in the data after a step, and the fingerprint of the data."""
        return {"place": self.place(step), "data": self.fingerprint}

    def epochs_done(self, step: int) -> int:
        """Count how often the data were read as a whole after a step."""
        return int(self.place(step)["epoch"])

    def place(self, step: int) -> dict[str, Any]:
        """Return the place in the data after a step, in batches of all processes together.

        From there on, the seed makes the same batches for any number of processes.
        """
        assert self._batches is not None  # training has begun
        consumer = self.consumer
        used = (step - consumer.first_step) * consumer.accumulate * consumer.world_size
        return self._batches.place(used)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self._place = state_dict["place"]
        if state_dict["data"] != self.fingerprint:
            raise RunError(
                "the data have changed since the run was started: training, validation or test "
                f"text are not what they were ({state_dict['data']}, now {self.fingerprint}). Put "
                "the files and settings back, or start a new run from scratch"
            )

    def val_dataloader(self) -> Iterator[Batch]:
        """Return batches of this rank's validation pairs, for the loss.

        Raises:
            DataError: there are fewer pairs than processes.
        """
        rank, world = self.consumer.rank, self.consumer.world_size
        lengths, tokens = self.val_lengths, self.data.max_tokens
        if world > len(lengths):
            raise DataError(
                f"data={self.data.name} has {len(lengths)} validation pairs for {world} processes: "
                "each needs one at least; give a larger validation set"
            )
        batches = token_batches(lengths, self.budget)
        while len(batches) < world:  # every process needs a batch
            tokens //= 2
            batches = token_batches(lengths, Budget(tokens))
        sources, targets = zip(*self.val_ids, strict=True)
        return (
            collate([sources[pair] for pair in pairs], [targets[pair] for pair in pairs])
            for pairs in batches[rank::world]
        )


class PreparedBatches(torch.utils.data.Dataset[Batch]):
    """Maps an epoch and the numbers of pairs to a padded batch, in the epoch's segmentation."""

    def __init__(self, shards: list[Shards], multiple: int):
        self.shards, self.multiple = shards, multiple

    def __getitem__(self, batch: tuple[int, np.ndarray]) -> Batch:
        epoch, pairs = batch
        return collate(*self.shards[epoch % len(self.shards)].ids(pairs), self.multiple)


def _leave_signals_to_the_main_process(worker: int) -> None:
    # Ctrl-C, a closed terminal and a scheduler's SIGTERM reach all processes of a job. Workers must
    # live on until the state is saved; they end when the main process closes the loader.
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        if hasattr(signal, name):  # Windows has no SIGHUP
            signal.signal(getattr(signal, name), signal.SIG_IGN)
