"""The datamodule: corpus files -> tokenizer -> token ids -> batches for training and validation."""

from __future__ import annotations

import logging
import random
import signal
from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from typing import Any

import datasets
import lightning as L
import numpy as np
import torch
from torch.utils.data import DataLoader

from seq2seq.config import DataConfig, TokenizerConfig
from seq2seq.data.batching import TrainingBatches, token_batches
from seq2seq.data.collate import Batch, collate
from seq2seq.data.corpus import Pair, load_pairs
from seq2seq.data.tokenizer import Tokenizer
from seq2seq.errors import DataError

log = logging.getLogger(__name__)

TOKENIZER_SAMPLE = 1_000_000  # pairs that the vocabulary is learned from


class TranslationData(L.LightningDataModule):
    """Training and validation pairs as batches of token ids.

    Args:
        data: where the text is, and the batch budget.
        tokenizer: vocabulary settings; trained on the training split unless a file is given.
        max_length: longest sentence in tokens, end mark included; longer pairs are left out of
            training and counted.
        seed: makes the order of batches.
    """

    tokenizer: Tokenizer

    def __init__(self, data: DataConfig, tokenizer: TokenizerConfig, max_length: int, seed: int):
        super().__init__()
        self.data, self.tokenizer_config = data, tokenizer
        self.max_length, self.seed = max_length, seed
        self.val_pairs: list[Pair] = []

    def prepare(self, tokenizer_file: Path | None = None) -> None:
        """Read, tokenise and filter; done once, before the trainer starts.

        Pairs that the model cannot take are left out of training and of the validation loss;
        `val_pairs` keeps all of them for BLEU, where long texts are translated in parts.

        Args:
            tokenizer_file: the tokenizer of a run that is being resumed.
        """
        train_pairs = load_pairs(self.data, "train")
        self.val_pairs = load_pairs(self.data, "val")
        file = tokenizer_file or self.tokenizer_config.path
        if file is not None:
            self.tokenizer = Tokenizer.load(file)
        else:
            sample: Iterable[Pair] = train_pairs
            if len(train_pairs) > TOKENIZER_SAMPLE:
                sample = random.Random(self.seed).sample(train_pairs, TOKENIZER_SAMPLE)
            texts = chain.from_iterable(sample)
            self.tokenizer = Tokenizer.train(texts, self.tokenizer_config.vocab_size)
        self.train_ids = self._tokenise(train_pairs, "train")
        self.val_ids = self._tokenise(self.val_pairs, "val")

    def _tokenise(self, pairs: list[Pair], split: str) -> datasets.Dataset:
        """Pairs as a dataset of `source` and `target` ids; unusable ones left out and counted."""
        texts = datasets.Dataset.from_dict(
            {"source": [pair[0] for pair in pairs], "target": [pair[1] for pair in pairs]}
        )

        def encode(rows: dict[str, list[str]]) -> dict[str, list[list[int]]]:
            return {side: self.tokenizer.encode(texts) for side, texts in rows.items()}

        ids = texts.map(encode, batched=True, batch_size=10_000, desc=f"tokenising {split}")
        lengths = _lengths(ids)
        empty = lengths.min(axis=1, initial=self.max_length) < 2  # nothing but the end mark
        too_long = (lengths.max(axis=1, initial=0) > self.max_length) & ~empty
        usable = ~empty & ~too_long
        if usable.all() and len(ids):
            return ids
        if not usable.any():
            raise DataError(
                f"data={self.data.name} has no usable {split} pair among {len(ids)}: both sides "
                f"must hold text of at most model.max_length={self.max_length} tokens"
            )
        log.warning(
            "%s: left out %d empty pairs and %d longer than %d tokens, of %d",
            *(split, empty.sum(), too_long.sum(), self.max_length, len(ids)),
        )
        return ids.select(np.flatnonzero(usable))

    def train_dataloader(self) -> DataLoader[Any]:
        """Endless batches from where the run stands."""
        trainer = self.trainer
        rank, world = (trainer.global_rank, trainer.world_size) if trainer else (0, 1)
        lengths = _lengths(self.train_ids)
        batches = TrainingBatches(lengths, self.data.max_tokens, self.seed, rank, world)
        if trainer is not None:
            # The place in the data follows from the steps made: nothing else has to be saved.
            batches.start = trainer.global_step * trainer.accumulate_grad_batches
        return self._loader(self.train_ids, batches)

    def val_dataloader(self) -> DataLoader[Any]:
        """The validation pairs of this rank, for the loss."""
        trainer = self.trainer
        rank, world = (trainer.global_rank, trainer.world_size) if trainer else (0, 1)
        lengths, budget = _lengths(self.val_ids), self.data.max_tokens
        if world > len(lengths):
            raise DataError(
                f"data={self.data.name} has {len(lengths)} validation pairs for {world} processes: "
                "each needs one at least; give a larger validation set"
            )
        batches = token_batches(lengths, budget)
        while len(batches) < world:  # every process must have something to do
            budget //= 2
            batches = token_batches(lengths, budget)
        return self._loader(self.val_ids, [batch.tolist() for batch in batches[rank::world]])

    def _loader(self, ids: datasets.Dataset, batches: Iterable[list[int]]) -> DataLoader[Any]:
        workers = self.data.num_workers
        return DataLoader(
            Batches(ids),
            sampler=batches,
            batch_size=None,  # each key of the sampler is a whole batch already
            num_workers=workers,
            persistent_workers=workers > 0,
            worker_init_fn=_leave_signals_to_the_main_process,
            pin_memory=torch.cuda.is_available(),
            # Of its own, so that opening the loader does not advance the seed of dropout.
            generator=torch.Generator(),
        )


class Batches(torch.utils.data.Dataset[Batch]):
    """Map from a list of sentence numbers to a padded batch."""

    def __init__(self, ids: datasets.Dataset):
        self.ids = ids

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, rows: list[int]) -> Batch:
        pairs = self.ids[rows]
        return collate(pairs["source"], pairs["target"])


def _leave_signals_to_the_main_process(worker: int) -> None:
    # Ctrl-C reaches all processes of a terminal, a scheduler's SIGTERM all of a job; workers must
    # live on until the state is saved, and end when the main process closes the loader.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


def _lengths(ids: datasets.Dataset) -> np.ndarray:
    """(n, 2) source and target lengths with their marks."""
    sides = [[len(tokens) + 1 for tokens in ids.with_format(None)[side]] for side in SIDES]
    return np.array(sides, dtype=np.int64).reshape(2, -1).T


SIDES = ("source", "target")
