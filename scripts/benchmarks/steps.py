"""The first steps of a training run, and what each of their parts takes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import torch

from seq2seq.config import TrainConfig
from seq2seq.data.collate import Batch
from seq2seq.data.datamodule import Consumer, TranslationData
from seq2seq.model.build import build_model
from seq2seq.model.flops import BatchSize, training_flops
from seq2seq.model.translation_model import TranslationModel
from seq2seq.training.announcement import quiet_libraries
from seq2seq.training.distributed import make_fabric
from seq2seq.training.lengths import in_steps
from seq2seq.training.run_folder import Run
from seq2seq.training.task import TranslationTask
from seq2seq.training.timing import PARTS, Timer
from seq2seq.training.trainer import Trainer


@dataclass
class Step:
    """One update of the weights.

    Attributes:
        source_tokens, target_tokens: real ones.
        positions: of both sides, padding included.
        flops: floating-point operations of the model, see `model/flops.py`.
        seconds: of each of `PARTS`; all of the time belongs to one of them.
    """

    source_tokens: int = 0
    target_tokens: int = 0
    positions: int = 0
    flops: float = 0.0
    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(PARTS, 0.0))


def open_data(config: TrainConfig) -> TranslationData:
    """The prepared data of a run."""
    t = config.trainer
    data = TranslationData(
        *(config.data, config.cleaning, config.tokenizer, config.model.max_length, config.seed),
        train_pairs=t.train_pairs,
        val_pairs=t.val_pairs,
        val_on_train=t.val_on_train,
    )
    data.prepare()
    return data


def train_steps(
    config: TrainConfig, steps: int, accelerator: str, precision: str
) -> tuple[Trainer, list[Step]]:
    """Train for a few steps as `training/train.py` does, but for validations and checkpoints."""
    quiet_libraries()
    data = open_data(config)
    config = in_steps(config, data)
    torch.manual_seed(config.seed)
    model = build_model(config.model, *data.vocabularies.sizes)
    t = config.trainer
    trainer = Trainer(
        make_fabric(accelerator, precision),
        TranslationTask(model, config.optim, t.max_steps),
        Run(Path(os.devnull), {}, precision),
        max_tokens=config.data.max_tokens,
        accumulate=t.accumulate,
        gradient_clip=t.gradient_clip,
        spike=t.max_loss_spike,
        ema=config.optim.ema,
        compile=t.compile,
    )
    data.consumer = Consumer(accumulate=t.accumulate, pin_memory=accelerator == "gpu")
    held, passes = [Step()], 2 if config.optim.r_drop else 1
    batches = _counted(iter(data.train_dataloader()), trainer.model, held, passes)
    trainer.timer = Timer(trainer.device, keep_steps=True)
    for _ in trainer.train_some(batches, steps):
        held.append(Step())
    for step, times in zip(held, trainer.timer.steps(), strict=False):
        between = times.total - sum(times.parts.values())  # EMA, and what the loop itself takes
        step.seconds = {**times.parts, "optimiser": times.parts["optimiser"] + between}
    return trainer, held[:-1]


def _counted(
    batches: Iterator[Batch], model: TranslationModel, held: list[Step], passes: int
) -> Iterator[Batch]:
    """The batches, each counted in the last of the steps."""
    for batch in batches:
        step = held[-1]
        step.source_tokens += batch.source_tokens
        step.target_tokens += batch.target_tokens
        step.positions += batch.source.numel() + batch.labels.numel()
        size = BatchSize(batch.source.size(0), batch.source_tokens, batch.target_tokens)
        step.flops += passes * training_flops(model.config, model.vocab_sizes[1], size)
        yield batch
