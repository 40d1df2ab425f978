"""Parts of the loop are timed apart, and those inside others are charged once."""

from __future__ import annotations

import time

import pytest
from tiny_training import tiny_fit, tiny_task

from seq2seq.callbacks.stopwatch import Stopwatch


def test_a_part_is_charged_only_for_its_own_time():
    stopwatch = Stopwatch()
    with stopwatch.profile("[LightningModule]TranslationTask.optimizer_step"):
        time.sleep(0.03)
        with stopwatch.profile("[Strategy]DDPStrategy.training_step"):
            time.sleep(0.1)
        with stopwatch.profile("anything else"):
            time.sleep(0.03)
    assert stopwatch.seconds["optimiser"] == pytest.approx(0.06, abs=0.03)
    assert stopwatch.seconds["forward"] == pytest.approx(0.1, abs=0.03)
    assert set(stopwatch.seconds) == {"optimiser", "forward"}


def test_lightning_names_all_parts_as_we_expect(tmp_path):
    stopwatch = Stopwatch()
    started = time.perf_counter()
    trainer = tiny_fit(tiny_task(), [], 3, profiler=stopwatch, accumulate_grad_batches=2)
    trainer.save_checkpoint(tmp_path / "x.ckpt")
    parts = {"data", "forward", "backward", "optimiser", "save"}
    assert set(stopwatch.seconds) == parts
    assert all(stopwatch.seconds[part] > 0 for part in parts)
    assert sum(stopwatch.seconds.values()) < time.perf_counter() - started
