"""What a person gets to know about a skipped step, and when a run gives up."""

from __future__ import annotations

import logging
import math
from types import SimpleNamespace

import pytest

from seq2seq.config import TrainerConfig
from seq2seq.errors import RunError
from seq2seq.training.loss_spikes import (
    GRADIENT_NOT_FINITE,
    JUMP,
    LOSS_NOT_FINITE,
    MOST_IN_A_ROW,
    Verdict,
    report_skipped_step,
)


def skip_a_step(folder, in_a_row=1, on_loss_spike="skip", rank=0) -> RunError | None:
    """Report that step 7 was left out."""
    run = SimpleNamespace(folder=folder, processes=SimpleNamespace(rank=rank))
    verdict = Verdict(LOSS_NOT_FINITE, math.nan, 2.5, 3.25, in_a_row)
    config, place = TrainerConfig(on_loss_spike=on_loss_spike), {"epoch": 1, "batch": 24}
    return report_skipped_step(7, verdict, place, run=run, config=config)


def test_a_step_is_told_with_its_figures_and_the_place_of_its_batches(tmp_path, caplog):
    with caplog.at_level(logging.WARNING):
        assert skip_a_step(tmp_path) is None  # the run goes on
        assert skip_a_step(tmp_path, rank=3) is None  # says nothing new
    assert caplog.messages == [
        "step 7 was left out: the loss is nan (nan nats per token, recent average 2.5, gradient "
        'norm 3.25). Its batches begin at {"epoch": 1, "batch": 24}'
    ]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (LOSS_NOT_FINITE, "the loss is inf"),
        (GRADIENT_NOT_FINITE, "the gradient norm is nan"),
        (JUMP, "the loss jumped by more than trainer.max_loss_spike=2.5"),
    ],
)
def test_a_reason_is_in_words(fault, words):
    assert Verdict(fault, math.inf, 2.5, math.nan, 1).reason(2.5) == words


def test_a_run_that_stops_says_how_to_go_on(tmp_path):
    error = skip_a_step(tmp_path, on_loss_spike="stop")
    assert "step 7 was left out: the loss is nan" in str(error)
    assert f"resume={tmp_path} trainer.on_loss_spike=skip" in str(error)


def test_many_in_a_row_end_a_run_that_would_skip_them(tmp_path):
    assert skip_a_step(tmp_path, MOST_IN_A_ROW - 1) is None
    error = skip_a_step(tmp_path, MOST_IN_A_ROW)
    assert "The run diverged: its last 10 steps were bad. Start a new one with a lower" in (
        str(error)
    )
