"""What is logged of speed: sums over a window, compared with the batches that went in."""

from __future__ import annotations

import time

import pytest
import torch
from tiny_training import TinyData, tiny_batch, tiny_fit, tiny_task, tiny_trainer

from seq2seq.model.flops import training_flops
from seq2seq.training.callbacks import Callback
from seq2seq.training.callbacks.throughput import Throughput
from seq2seq.training.hardware import dense_peak
from seq2seq.training.timing import Times

STEPS = 4


class Slow(Callback):
    """Makes each batch, each save and each validation last."""

    def on_validation_end(self, trainer):
        time.sleep(0.5)

    def state_dict(self):
        time.sleep(0.5)
        return {}


class SlowBatches(TinyData):
    def batches(self):
        for batch in super().batches():
            time.sleep(0.02)
            yield batch


@pytest.fixture
def clock(monkeypatch):
    """Time passes while something sleeps, and at no other time."""
    now = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    monkeypatch.setattr(time, "sleep", lambda seconds: now.__setitem__(0, now[0] + seconds))


@pytest.fixture
def logged(tmp_path, clock):
    """Figures of one window: four steps of two batches each, with a save among them."""
    (tmp_path / "checkpoints").mkdir()
    trainer = tiny_fit(
        tiny_task(), [Throughput(), Slow()], STEPS, val_every_n_steps=STEPS + 1,
        run_dir=tmp_path, save_every=2, accumulate=2, log_every_n_steps=STEPS,
        data=SlowBatches(),
    )  # fmt: skip
    return trainer.metrics


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
                       3, batch.source_tokens, batch.target_tokens)
        for batch in BATCHES
    )
    assert logged["perf/tflops"] * seconds * 1e12 == pytest.approx(flops, rel=1e-3)


def test_padding_is_what_holds_no_token(logged):
    real = sum(int((side != 0).sum()) for batch in BATCHES for side in (batch.source, batch.labels))
    positions = sum(batch.source.numel() + batch.labels.numel() for batch in BATCHES)
    assert logged["perf/padding_share"] == pytest.approx(1 - real / positions, rel=1e-5)


def test_saving_is_no_part_of_a_step(logged):
    assert logged["perf/step_seconds"] == pytest.approx(2 * 0.02)


def test_a_cpu_has_no_utilisation(logged):
    assert "perf/utilisation" not in logged
    assert logged["perf/memory_gib"] > 0.01


def test_waiting_for_the_loader_is_measured(logged):
    assert logged["perf/data_wait_share"] == pytest.approx(1)


def test_validation_is_left_out(clock):
    trainer = tiny_fit(
        tiny_task(), [Throughput(), Slow()], 4, log_every_n_steps=2, data=SlowBatches()
    )
    assert trainer.metrics["perf/step_seconds"] == pytest.approx(0.02)


def test_figures_are_those_of_all_processes(monkeypatch):
    """With a second process that does just as much, twice the tokens and the same waiting."""

    def run(processes):
        trainer = tiny_trainer(tiny_task(), 1)
        seen = Throughput()
        seen._work = torch.tensor([10, 8, 20, 1e9], dtype=torch.float64)
        monkeypatch.setattr(type(trainer.fabric), "world_size", property(lambda self: processes))
        monkeypatch.setattr(trainer.fabric, "all_reduce", lambda sums, reduce_op: processes * sums)
        parts = {"data": 0.5, "forward": 0.1, "backward": 0.1, "optimiser": 0.1}
        monkeypatch.setattr(trainer.timer, "read", lambda: Times(1, 1.0, parts))
        seen.on_step_end(trainer, [])
        trainer.write_row()
        return trainer.metrics

    one, two = run(1), run(2)
    for name in ("perf/source_tokens_per_second", "perf/target_tokens_per_second", "perf/tflops"):
        assert two[name] == pytest.approx(2 * one[name])
    for name in ("perf/padding_share", "perf/data_wait_share", "perf/step_seconds"):
        assert two[name] == pytest.approx(one[name])
    assert one["perf/data_wait_share"] == 0.5


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
