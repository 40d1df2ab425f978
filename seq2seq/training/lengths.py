"""Lengths of training: epochs and tokens converted to steps, once the data are known."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

from seq2seq.config import TrainConfig
from seq2seq.data.datamodule import TranslationData
from seq2seq.length import Length

log = logging.getLogger(__name__)

LENGTHS = (
    *(("trainer", "max_steps"), ("trainer", "val_every_n_steps")),
    *(("optim", "warmup_steps"), ("optim", "decay_steps")),
)


def in_steps(config: TrainConfig, data: TranslationData) -> TrainConfig:
    """Return the settings with every length as a whole number of steps.

    Args:
        data: prepared; its epoch is measured only if a length needs it.

    Raises:
        ConfigError: the schedule does not fit into the run.
    """
    steps_per_epoch = tokens_per_step = 1.0
    given = [getattr(getattr(config, group), name) for group, name in LENGTHS]
    if any(Length.parse(one).unit != "steps" for one in given if one is not None):
        batches, tokens = data.epoch()
        t = config.trainer
        steps_per_epoch = batches / (t.devices * t.num_nodes * t.accumulate)
        tokens_per_step = tokens / steps_per_epoch
    groups: dict[str, Any] = {"trainer": config.trainer, "optim": config.optim}
    for (group, name), value in zip(LENGTHS, given, strict=True):
        if value is None:
            continue
        length = Length.parse(value)
        steps = length.in_steps(steps_per_epoch, tokens_per_step)
        groups[group] = replace(groups[group], **{name: steps})
        if length.unit != "steps":
            log.info("length      %s.%s=%s is %s steps", group, name, value, f"{steps:,}")
    return replace(config, **groups)
