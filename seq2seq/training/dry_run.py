"""What a run will do: logged at its start, and measured by `scripts/train.py dry_run=true`."""

from __future__ import annotations

import logging
import os
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from torch import nn

from seq2seq.config import TrainConfig, TrainerConfig
from seq2seq.data.datamodule import TranslationData
from seq2seq.model.translation_model import TranslationModel
from seq2seq.training.distributed import make_fabric
from seq2seq.training.failures import plain_failures
from seq2seq.training.hardware import peak_memory
from seq2seq.training.run_folder import Run
from seq2seq.training.trainer import Trainer

log = logging.getLogger(__name__)

STEPS = 5  # on a typical batch
SHORT_RUN, FEWEST_SCORED = 50, 50  # steps of a short run; fewest pairs that it translates


def announce(
    config: TrainConfig, run_dir: Path, data: TranslationData, model: nn.Module, device: str
) -> None:
    """Log the data, the model, the device and the length of a run."""
    t, corpus, final = config.trainer, config.data, config.data.final_steps
    sizes = " and ".join(f"{size:,}" for size in dict.fromkeys(data.vocabularies.sizes))
    shares = ((t.accumulate, "batches"), (t.devices * t.num_nodes, "processes"))
    times = "".join(f" x {number} {what}" for number, what in shares if number > 1)
    pairs = len(data.val_pairs)
    scored = scored_pairs(t, pairs)
    lines = [
        (True, f"data        {corpus.name}: {data.summary()}, {sizes} subwords"),
        (True, f"prepared    {data.prepared.folder / 'report.html'}"),
        (True, f"model       {config.model.name}: {count_parameters(model):,} parameters; "
               f"{config.model.summary()}"),
        (config.init_from, f"weights     of {config.init_from}"),
        (True, f"device      {device}"),
        (True, f"steps       {t.max_steps:,} of {corpus.max_tokens:,} tokens, both sides together"
               f"{times}"),
        (final, f"last steps  {final or 0:,} of them with data.final_weights"),
        (not config.dry_run, f"results in  {run_dir}"),
        (corpus.name == "starter",
         "real data   this is the built-in starter corpus; to train on your own text: data=files "
         "data.path=FOLDER (holding train, val and test files)"),
        (scored < pairs,
         f"note        so short a run translates {scored} of the {pairs:,} sentences of its "
         f"validation set only: trainer.val_pairs={pairs} translates all"),
    ]  # fmt: skip
    log.info("\n".join(line for shown, line in lines if shown))


def scored_pairs(config: TrainerConfig, pairs: int) -> int:
    """Return how many validation pairs to translate.

    A short run translates some of them only: all could take longer than the run itself.
    """
    if config.val_pairs is not None or config.max_steps > SHORT_RUN:
        return pairs
    return min(pairs, max(FEWEST_SCORED, 10 * int(config.max_steps)))


def count_parameters(model: nn.Module) -> int:
    """Count the numbers in all parameters; shared parameters count once."""
    return sum(parameter.numel() for parameter in model.parameters())


def dry_run(
    config: TrainConfig,
    data: TranslationData,
    model: TranslationModel,
    accelerator: str,
    precision: str,
) -> None:
    """Log the length of an epoch, and the memory and time of training, measured on a few steps."""
    t, (_, typical, largest) = config.trainer, data.examples()
    batches, tokens = data.epoch()
    steps = batches / (t.devices * t.num_nodes * t.accumulate)
    one_batch = replace(config, trainer=replace(t, accumulate=1))
    trainer = trainer_alone(one_batch, model, accelerator, precision)
    trainer.batch = largest  # the message about lack of memory names it
    with plain_failures(trainer.run.folder, trainer):
        trainer.train_step(iter([largest]))
        trainer.timer.restart()
        for _ in range(STEPS):
            trainer.train_step(iter([typical]))
    seconds = trainer.timer.read().total / STEPS
    memory = peak_memory(trainer.device.type) / 2**20
    training = timedelta(seconds=round(seconds * t.accumulate * t.max_steps))
    lines = [
        f"epoch       {batches:,} batches, {tokens:,} target tokens: {steps:,.1f} steps",
        f"epochs      {t.max_steps / steps:,.1f}",
        f"memory      {memory:,.0f} MiB at most, with the largest batch: source "
        f"{tuple(largest.source.shape)}, target {tuple(largest.labels.shape)}",
        f"batch       {seconds:.3f} s, {typical.target_tokens / seconds:,.0f} target tokens/s",
        f"training    {training} for {t.max_steps:,} steps; validation and checkpoints come on top",
    ]
    log.info("\n".join(lines))


def trainer_alone(
    config: TrainConfig, model: TranslationModel, accelerator: str, precision: str
) -> Trainer:
    """Make a trainer for one process that writes no files, to measure its steps."""
    fabric, run = make_fabric(accelerator, precision), Run(Path(os.devnull), {}, precision)
    optim, max_tokens = config.optim, config.data.max_tokens
    return Trainer(fabric, model, run, config.trainer, optim=optim, max_tokens=max_tokens)
