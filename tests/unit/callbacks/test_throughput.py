"""What is logged of speed: sums over a window, compared with the batches that went in."""

from __future__ import annotations

import time

import lightning as L
import pytest
from tiny_training import tiny_batch, tiny_fit, tiny_task

from seq2seq.callbacks import throughput
from seq2seq.callbacks.stopwatch import Stopwatch
from seq2seq.callbacks.throughput import Throughput
from seq2seq.model.flops import BatchSize, training_flops
from seq2seq.training.hardware import dense_peak

STEPS = 4


class Slow(L.Callback):
    """Makes each step, each save and each validation last."""

    def on_train_batch_start(self, trainer, pl_module, batch, batch_idx):
        time.sleep(0.02)

    def on_validation_start(self, trainer, pl_module):
        time.sleep(0.5)

    def on_save_checkpoint(self, trainer, pl_module, checkpoint):
        time.sleep(0.5)


class SaveOnce(L.Callback):
    def __init__(self, path):
        self.path = path

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        if batch_idx == 1:
            trainer.save_checkpoint(self.path)


@pytest.fixture
def clock(monkeypatch):
    """Time passes while something sleeps, and at no other time."""
    now = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    monkeypatch.setattr(time, "sleep", lambda seconds: now.__setitem__(0, now[0] + seconds))


@pytest.fixture
def logged(tmp_path, clock):
    """Figures of one window: four steps of two batches each."""
    path = tmp_path / "saved.ckpt"
    stopwatch = Stopwatch()
    callbacks = [Throughput(stopwatch, passes=2), Slow(), SaveOnce(path)]
    trainer = tiny_fit(tiny_task(), callbacks, STEPS, val_every=STEPS + 1, profiler=stopwatch,
                       accumulate_grad_batches=2, log_every_n_steps=STEPS)
    return {name: float(value) for name, value in trainer.callback_metrics.items()}


BATCHES = [tiny_batch(i) for i in range(2 * STEPS)]


def test_tokens_and_flop_are_those_of_the_window(logged):
    source, target = (sum(getattr(batch, f"{side}_tokens") for batch in BATCHES)
                      for side in ("source", "target"))
    seconds = STEPS * logged["perf/step_seconds"]
    assert logged["perf/source_tokens_per_second"] * seconds == pytest.approx(source, rel=1e-3)
    assert logged["perf/target_tokens_per_second"] * seconds == pytest.approx(target, rel=1e-3)
    model = tiny_task().model
    flops = sum(
        training_flops(model.config, model.vocab_sizes[1],
                       BatchSize(3, batch.source_tokens, batch.target_tokens))
        for batch in BATCHES
    )
    assert logged["perf/tflops"] * seconds * 1e12 == pytest.approx(2 * flops, rel=1e-3)


def test_padding_is_what_holds_no_token(logged):
    real = sum(int((side != 0).sum()) for batch in BATCHES for side in (batch.source, batch.labels))
    positions = sum(batch.source.numel() + batch.labels.numel() for batch in BATCHES)
    assert logged["perf/padding_share"] == pytest.approx(1 - real / positions, rel=1e-5)


def test_saving_is_no_part_of_a_step(logged):
    assert logged["perf/step_seconds"] == pytest.approx(2 * 0.02)


def test_a_cpu_has_no_utilisation(logged):
    assert "perf/utilisation" not in logged
    assert logged["perf/memory_gib"] > 0.01


def test_waiting_for_the_loader_is_measured(monkeypatch, clock):
    import tiny_training

    def slow_batch(number):
        time.sleep(0.03)
        return tiny_batch(number)

    monkeypatch.setattr(tiny_training, "tiny_batch", slow_batch)
    stopwatch = Stopwatch()
    trainer = tiny_fit(tiny_task(), [Throughput(stopwatch)], 6, val_every=7, profiler=stopwatch,
                       log_every_n_steps=3)
    waited = trainer.callback_metrics
    assert float(waited["perf/step_seconds"]) == pytest.approx(0.03)
    assert float(waited["perf/data_wait_share"]) == pytest.approx(1)


def test_validation_is_left_out(clock):
    stopwatch = Stopwatch()
    trainer = tiny_fit(tiny_task(), [Throughput(stopwatch), Slow()], 4, val_every=2,
                       profiler=stopwatch, log_every_n_steps=2)
    assert float(trainer.callback_metrics["perf/step_seconds"]) == pytest.approx(0.02)


def test_figures_are_those_of_all_processes(monkeypatch):
    """With a second process that does just as much, twice the tokens and the same waiting."""

    def run(processes):
        stopwatch = Stopwatch()
        trainer = tiny_fit(tiny_task(), [], 1, profiler=stopwatch)
        seen = Throughput(stopwatch)
        seen._work = throughput.Work(source=10, target=8, positions=20, flops=1e9)
        seen._batches, seen._since, seen._data = 1, time.perf_counter() - 1, -0.5
        stopwatch.seconds.clear()
        logged = {}
        task = tiny_task()
        monkeypatch.setattr(task, "log_dict", logged.update)
        monkeypatch.setattr(type(trainer), "world_size", property(lambda self: processes))
        monkeypatch.setattr(trainer.strategy, "reduce", lambda sums, reduce_op: processes * sums)
        seen._save = 0.0
        seen._log(trainer, task)
        return logged

    one, two = run(1), run(2)
    for name in ("perf/source_tokens_per_second", "perf/target_tokens_per_second", "perf/tflops"):
        assert two[name] == pytest.approx(2 * one[name], rel=0.05)
    for name in ("perf/padding_share", "perf/data_wait_share", "perf/step_seconds"):
        assert two[name] == pytest.approx(one[name], rel=0.05)


@pytest.mark.parametrize(
    ("name", "peak"),
    [
        ("NVIDIA H100 80GB HBM3", 989),
        ("NVIDIA H100 PCIe", 756),
        ("NVIDIA H200", 989),
        ("NVIDIA A100-SXM4-80GB", 312),
        ("NVIDIA A10", 125),
        ("NVIDIA A10G", 70),
        ("NVIDIA L4", 121),
        ("NVIDIA L40S", 362),
        ("Tesla V100-SXM2-16GB", 125),
        ("NVIDIA GeForce RTX 4090", 165.2),
        ("NVIDIA GeForce RTX 4090 Laptop GPU", None),
        ("AMD Instinct MI300X", None),
    ],
)
def test_the_peak_of_a_gpu_is_found_by_its_name(name, peak):
    assert dense_peak(name) == peak
