"""What a run would take, measured on a few steps: `scripts/train.py dry_run=true`."""

from __future__ import annotations

import logging
from datetime import timedelta
from itertools import repeat

from seq2seq.data.datamodule import TranslationData
from seq2seq.training.failures import plain_failures
from seq2seq.training.hardware import peak_memory
from seq2seq.training.trainer import Trainer

log = logging.getLogger(__name__)

BATCHES = 5  # of typical size, at least


def dry_run(trainer: Trainer, data: TranslationData) -> None:
    """Log the length of an epoch, and the memory and time of training, measured on a few steps.

    Args:
        trainer: of one process; its settings are those of the run.
    """
    typical, largest = data.examples()
    batches, tokens = data.epoch()
    t = trainer.config
    measured = -(-BATCHES // t.accumulate)  # steps, rounded up
    steps = batches / (t.devices * t.num_nodes * t.accumulate)
    with plain_failures(trainer.run.folder, trainer):
        trainer.train_step(repeat(largest))
        trainer.timer.restart()
        for _ in range(measured):
            trainer.train_step(repeat(typical))
    seconds = trainer.timer.read().total / measured
    batch = seconds / t.accumulate
    memory = peak_memory(trainer.device.type) / 2**20
    training = timedelta(seconds=round(seconds * trainer.max_steps))
    lines = [
        f"epoch       {batches:,} batches, {tokens:,} target tokens: {steps:,.1f} steps",
        f"epochs      {trainer.max_steps / steps:,.1f}",
        f"memory      {memory:,.0f} MiB at most, with the largest batch: source "
        f"{tuple(largest.source.shape)}, target {tuple(largest.labels.shape)}",
        f"batch       {batch:.3f} s, {typical.target_tokens / batch:,.0f} target tokens/s",
        f"training    {training} for {trainer.max_steps:,} steps; validation and checkpoints come "
        "on top",
    ]
    if t.strategy == "fsdp":
        lines.append("note        measured in one process with whole weights; each of several GPUs "
                     "holds a share of them, and waits for the others")  # fmt: skip
    log.info("\n".join(lines))
