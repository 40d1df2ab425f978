"""What a run would take, measured on a few steps: `scripts/train.py dry_run=true`."""

from __future__ import annotations

import logging
import os
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from seq2seq.config import OptimConfig, TrainerConfig
from seq2seq.data.datamodule import TranslationData
from seq2seq.model.translation_model import TranslationModel
from seq2seq.training.distributed import make_fabric
from seq2seq.training.failures import plain_failures
from seq2seq.training.hardware import peak_memory
from seq2seq.training.run_folder import Run
from seq2seq.training.trainer import Trainer

log = logging.getLogger(__name__)

STEPS = 5  # on a typical batch


def dry_run(
    data: TranslationData,
    model: TranslationModel,
    accelerator: str,
    precision: str,
    *,
    config: TrainerConfig,
    optim: OptimConfig,
) -> None:
    """Log the length of an epoch, and the memory and time of training, measured on a few steps."""
    _, typical, largest = data.examples()
    batches, tokens = data.epoch()
    accumulate, max_steps = config.accumulate, int(config.max_steps)
    steps = batches / (config.devices * config.num_nodes * accumulate)
    fabric, run = make_fabric(accelerator, precision), Run(Path(os.devnull), {}, precision)
    one_batch, max_tokens = replace(config, accumulate=1), data.data.max_tokens
    trainer = Trainer(fabric, model, run, one_batch, optim=optim, max_tokens=max_tokens)
    trainer.batch = largest  # the message about lack of memory names it
    with plain_failures(trainer.run.folder, trainer):
        trainer.train_step(iter([largest]))
        trainer.timer.restart()
        for _ in range(STEPS):
            trainer.train_step(iter([typical]))
    seconds = trainer.timer.read().total / STEPS
    memory = peak_memory(trainer.device.type) / 2**20
    training = timedelta(seconds=round(seconds * accumulate * max_steps))
    lines = [
        f"epoch       {batches:,} batches, {tokens:,} target tokens: {steps:,.1f} steps",
        f"epochs      {max_steps / steps:,.1f}",
        f"memory      {memory:,.0f} MiB at most, with the largest batch: source "
        f"{tuple(largest.source.shape)}, target {tuple(largest.labels.shape)}",
        f"batch       {seconds:.3f} s, {typical.target_tokens / seconds:,.0f} target tokens/s",
        f"training    {training} for {max_steps:,} steps; validation and checkpoints come on top",
    ]
    log.info("\n".join(lines))
