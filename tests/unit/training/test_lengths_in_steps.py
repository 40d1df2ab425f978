"""Lengths become steps in one place, from the size of an epoch."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from seq2seq.config import OptimConfig, TrainConfig, TrainerConfig
from seq2seq.errors import ConfigError
from seq2seq.training.lengths import in_steps


def data(batches: int, tokens: int) -> Any:
    return SimpleNamespace(epoch=lambda: (batches, tokens))


def never_asked() -> Any:
    raise AssertionError("all lengths are steps: nobody needs the size of an epoch")


def test_lengths_become_steps_of_all_processes_and_accumulated_batches():
    config = TrainConfig(
        optim=OptimConfig(schedule="wsd", warmup_steps="60ktokens", decay_steps="1epoch"),
        trainer=TrainerConfig(
            max_steps="5epochs", val_every_n_steps="0.5epochs", devices=2, num_nodes=2,
            accumulate=3,
        ),
    )
    found = in_steps(config, data(batches=1200, tokens=600_000))
    # A step takes 2 x 2 x 3 batches: an epoch has 100 steps of 6000 tokens.
    assert (found.trainer.max_steps, found.trainer.val_every_n_steps) == (500, 50)
    assert (found.optim.warmup_steps, found.optim.decay_steps) == (10, 100)
    assert config.trainer.max_steps == "5epochs"  # the user's settings stay as they are
    untouched = {"max_steps": "5epochs", "val_every_n_steps": "0.5epochs"}
    assert replace(found.trainer, **untouched) == config.trainer


def test_steps_stay_as_they_are_whatever_the_data():
    config = TrainConfig(trainer=TrainerConfig(max_steps="4e3"), optim=OptimConfig(warmup_steps=3))
    found = in_steps(config, SimpleNamespace(epoch=never_asked))  # type: ignore[arg-type]
    assert found.trainer.max_steps == 4000
    assert isinstance(found.trainer.max_steps, int)
    assert found.optim.decay_steps is None


def test_a_schedule_that_does_not_fit_is_found_when_the_lengths_are_known():
    config = TrainConfig(
        trainer=TrainerConfig(max_steps="2epochs"),
        optim=OptimConfig(schedule="cosine", warmup_steps=30),
    )
    with pytest.raises(ConfigError, match=r"warmup_steps=30 leaves nothing of .*max_steps=20 for"):
        in_steps(config, data(batches=10, tokens=1000))
    assert in_steps(config, data(batches=20, tokens=1000)).trainer.max_steps == 40
