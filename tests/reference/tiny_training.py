"""Real training of a tiny model in this process: a few steps take a tenth of a second."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import lightning as L
import torch
from tiny import random_ids, tiny_transformer
from torch.utils.data import DataLoader, IterableDataset

from seq2seq.config import OptimConfig
from seq2seq.data.collate import Batch, collate
from seq2seq.training.task import TranslationTask


def tiny_batch(number: int) -> Batch:
    """Batch `number` of an endless stream: three pairs of random words."""
    sides = [[random_ids(3 * number + i + 3, 2 + i).tolist() for i in range(3)] for _ in range(2)]
    return collate(*sides)


class TinyBatches(IterableDataset[Batch]):
    """The stream from some batch on."""

    def __init__(self, first: int = 0):
        self.first = first

    def __iter__(self) -> Iterator[Batch]:
        number = self.first
        while True:
            yield tiny_batch(number)
            number += 1


def tiny_task(optim: OptimConfig | None = None, **model: Any) -> TranslationTask:
    """The same weights each time."""
    optim = optim or OptimConfig(lr=0.01, warmup_steps=2)
    return TranslationTask(
        tiny_transformer(**model), optim, gradient_clip=1.0, max_tokens=64
    )


def tiny_fit(
    task: TranslationTask,
    callbacks: list[L.Callback],
    steps: int,
    *,
    first_batch: int = 0,
    val_every: int = 2,
    checkpoint: Any = None,
    **trainer: Any,
) -> L.Trainer:
    """Train as `seq2seq.training.run` does; validation batches are those before the stream."""
    accumulate = trainer.get("accumulate_grad_batches", 1)
    settings = {
        "accelerator": "cpu", "devices": 1, "max_steps": steps, "logger": False,
        "val_check_interval": val_every * accumulate, "check_val_every_n_epoch": None,
        "enable_checkpointing": False, "enable_progress_bar": False,
        "enable_model_summary": False, "num_sanity_val_steps": 0, "callbacks": callbacks,
        **trainer,
    }  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = L.Trainer(**settings)
        made.fit(
            task,
            DataLoader(TinyBatches(first_batch), batch_size=None),
            DataLoader([tiny_batch(-1)], batch_size=None),
            ckpt_path=checkpoint,
            weights_only=True,
        )
    return made


def weights(task: TranslationTask) -> dict[str, torch.Tensor]:
    """Copies of the model's state."""
    return {name: value.clone() for name, value in task.model.state_dict().items()}


class Recorder(L.Callback):
    """What each update was; stands behind the callbacks that change something.

    Attributes:
        nll: nats per token of each step.
        norm: of each gradient before clipping.
        weights: the model's state after each step.
        moments: all tensors of the optimiser's state after each step.
        faults: why a step was left out, or None.
    """

    def __init__(self) -> None:
        self.nll: list[float] = []
        self.norm: list[float] = []
        self.weights: list[dict[str, torch.Tensor]] = []
        self.moments: list[list[torch.Tensor]] = []
        self.faults: list[str | None] = []

    def on_train_batch_end(self, trainer: Any, pl_module: Any, *_: Any) -> None:
        if trainer.global_step == len(self.nll):
            return  # an update is still being gathered
        self.nll.append(float(trainer.callback_metrics["train/nll"]))
        self.norm.append(float(trainer.callback_metrics["optim/grad_norm"]))
        self.weights.append(weights(pl_module))
        states = trainer.optimizers[0].state.values()
        self.moments.append([value.clone() for state in states for value in state.values()])
        self.faults.append(pl_module.bad_step.reason if pl_module.bad_step else None)
