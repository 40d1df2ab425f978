"""Real training of a tiny model in this process: a few steps take a tenth of a second."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count, islice
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from lightning_fabric import Fabric
from lightning_fabric.plugins import MixedPrecision
from tiny import random_ids, tiny_transformer

from seq2seq.config import CheckpointConfig, OptimConfig, TrainerConfig
from seq2seq.data.collate import Batch, collate
from seq2seq.data.datamodule import Consumer
from seq2seq.errors import RunError
from seq2seq.training.callbacks import Callback
from seq2seq.training.checkpointing import read_checkpoint
from seq2seq.training.distributed import make_fabric
from seq2seq.training.loss import TranslationTask, validation_nll
from seq2seq.training.loss_spikes import Verdict
from seq2seq.training.run_folder import Run
from seq2seq.training.sharding import gathered_model
from seq2seq.training.trainer import Trainer


def tiny_batch(number: int) -> Batch:
    """Batch `number` of an endless stream: three pairs of random words."""
    sides = [[random_ids(3 * number + i + 3, 2 + i).tolist() for i in range(3)] for _ in range(2)]
    return collate(*sides)


class TinyData:
    """The stream in the place of `TranslationData`; validation has the batch before it."""

    def batches(self) -> Iterator[Batch]:
        return map(tiny_batch, count())

    def train_dataloader(self, consumer: Consumer) -> Iterator[Batch]:
        c = self.consumer = consumer
        assert c.first_step in (0, getattr(self, "restored", 0))
        first = c.first_step * c.accumulate * c.world_size + c.rank
        return islice(self.batches(), first, None, c.world_size)

    def val_dataloader(self) -> list[Batch]:
        return [tiny_batch(-1)]

    def state_dict(self, step: int) -> dict[str, Any]:
        return {"step": step}

    def epochs_done(self, step: int) -> int:
        return 0

    def place(self, step: int) -> dict[str, Any]:
        return {"batch": step}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.restored = state["step"]


class TinyValidation:
    """A validation that is only its loss, in the place of `Validation`."""

    out_of_patience = False

    def begin(self, step: int) -> None:
        pass

    def validate(self, trainer: Trainer) -> None:
        with torch.no_grad(), trainer.fabric.autocast():
            model = gathered_model(trainer.model)
            batches = (batch.to(trainer.device) for batch in trainer.data.val_dataloader())
            losses = [validation_nll(model, batch) for batch in batches]
        trainer.log({"val/nll": sum(losses)})

    def score_average(self, trainer: Trainer) -> None:
        pass

    def state_dict(self) -> dict[str, Any]:
        return {}


class KeptFaults:
    """Keeps skipped steps, in the place of `report_skipped_step`."""

    def __init__(self) -> None:
        self.skipped: list[tuple[int, Verdict]] = []

    def report(self, step: int, verdict: Verdict, *_: Any, **__: Any) -> RunError | None:
        self.skipped.append((step, verdict))
        return None


def tiny_task(optim: OptimConfig | None = None, **model: Any):
    """The same weights each time."""
    optim = optim or OptimConfig(lr=0.01, warmup_steps=2)
    task = TranslationTask(tiny_transformer(**model), optim.label_smoothing)
    task.optim = optim  # for the trainer
    return task


def tiny_trainer(
    task: TranslationTask,
    steps: int,
    callbacks: Sequence[Callback] = (),
    *,
    run_dir: Path | None = None,
    fabric: Fabric | None = None,
    precision: str = "32-true",
    ema: float = 0.0,
    trackers: Sequence[Any] = (),
    **options: Any,
) -> Trainer:
    """As `seq2seq.training.train` makes it; `options` are its settings."""
    run = Run(Path(os.devnull) if run_dir is None else run_dir, {}, precision)
    settings: dict[str, Any] = {"val_every_n_steps": 2, "log_every_n_steps": 1, **options}
    fabric = fabric or make_fabric("cpu", precision)
    config, optim = TrainerConfig(max_steps=steps, **settings), replace(task.optim, ema=ema)
    trainer = Trainer(fabric, task.model, run, config, optim=optim, max_tokens=64)
    trainer.callbacks, trainer.trackers = callbacks, trackers
    return trainer


def fp16(init_scale: float, growth_interval: int = 10_000, device: str = "cpu") -> Fabric:
    """fp16 with loss scaling, which a GPU without bf16 trains with; a CPU can do it, too."""
    scaler = torch.amp.GradScaler(device, init_scale=init_scale, growth_interval=growth_interval)
    plugin = MixedPrecision("16-mixed", device, scaler)
    return Fabric(accelerator=device, devices=1, plugins=[plugin])


def without_saving(trainer: Trainer) -> Trainer:
    """For a run without a folder."""
    trainer._save = lambda validated: None  # type: ignore[method-assign]
    return trainer


def tiny_fit(
    task: TranslationTask,
    callbacks: Sequence[Callback],
    steps: int,
    *,
    checkpoint: Path | None = None,
    data: Any = None,
    validation: Any = None,
    saving: CheckpointConfig | None = None,
    save_every: int | None = None,
    skipped_steps: Any = None,
    **options: Any,
) -> Trainer:
    """Train to the end, from a checkpoint or from the beginning; saves only if told when."""
    trainer = tiny_trainer(task, steps, callbacks, **options)
    if save_every is not None:
        saving = CheckpointConfig(every_n_steps=save_every)
    if saving is None:
        without_saving(trainer)
    else:
        (trainer.run.folder / "checkpoints").mkdir(parents=True, exist_ok=True)
    found = None if checkpoint is None else read_checkpoint(checkpoint)
    trainer.kept = skipped_steps or KeptFaults()
    with mock.patch("seq2seq.training.trainer.report_skipped_step", trainer.kept.report):
        trainer.fit(
            data or TinyData(),
            validation or TinyValidation(),
            saving or CheckpointConfig(),
            found,
        )
    return trainer


def weights(task: TranslationTask) -> dict[str, torch.Tensor]:
    """Copies of the model's state."""
    return {name: value.clone() for name, value in task.model.state_dict().items()}


class Recorder(Callback):
    """What each update was.

    Attributes:
        nll: nats per token of each step.
        norm: of each gradient before clipping.
        weights: the model's state after each step.
        moments: all tensors of the optimiser's state after each step.
        skipped: whether a step was left out.
        faults: why, or None; from the first step to the last.
    """

    def __init__(self) -> None:
        self.nll: list[float] = []
        self.norm: list[float] = []
        self.weights: list[dict[str, torch.Tensor]] = []
        self.moments: list[list[torch.Tensor]] = []
        self.skipped: list[bool] = []
        self.trainer: Trainer | None = None

    def on_step_end(self, trainer: Trainer, batches: Sequence[Batch]) -> None:
        self.nll.append(float(trainer.metrics["train/nll"]))
        self.norm.append(float(trainer.metrics["optim/grad_norm"]))
        self.weights.append(weights(trainer.task))
        states = trainer.optimizer.state.values()
        self.moments.append([value.clone() for state in states for value in state.values()])
        self.skipped.append(bool(trainer.skipped))
        self.trainer = trainer

    @property
    def faults(self) -> list[str | None]:
        known = {step: verdict.reason(5.0) for step, verdict in self.trainer.kept.skipped}
        return [known.get(step) for step in range(1, len(self.nll) + 1)]
