"""Lengths of training in steps, once the data are known that epochs and tokens are counted in."""

from __future__ import annotations

import logging
from dataclasses import replace

from seq2seq.config import TrainConfig
from seq2seq.data.datamodule import TranslationData
from seq2seq.length import Length

log = logging.getLogger(__name__)


def in_steps(config: TrainConfig, data: TranslationData) -> TrainConfig:
    """The settings with every length as a whole number of steps.

    Args:
        data: prepared; asked for the size of an epoch only where a length needs it.

    Raises:
        ConfigError: the schedule does not fit into the run.
    """
    lengths = {name: Length.parse(value) for name, value in config.lengths().items()}
    steps_per_epoch, tokens_per_step = 1.0, 1.0
    if any(length.unit != "steps" for length in lengths.values()):
        batches, tokens = data.epoch()
        t = config.trainer
        steps_per_epoch = batches / (t.devices * t.num_nodes * t.accumulate)
        tokens_per_step = tokens / steps_per_epoch
    found = {
        name: length.in_steps(steps_per_epoch, tokens_per_step) for name, length in lengths.items()
    }
    for name, value in config.lengths().items():
        if lengths[name].unit != "steps":
            log.info("length      %s=%s is %s steps", name, value, f"{found[name]:,}")
    return replace(
        config,
        trainer=replace(
            config.trainer,
            max_steps=found["trainer.max_steps"],
            val_every_n_steps=found["trainer.val_every_n_steps"],
        ),
        optim=replace(
            config.optim,
            warmup_steps=found["optim.warmup_steps"],
            decay_steps=found.get("optim.decay_steps"),
        ),
    )
