"""Which precision is chosen, and that training works in each: fp16 after overflows, too."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from tiny_training import Recorder, fp16, tiny_fit, tiny_task

from seq2seq.config import (
    DataConfig,
    ModelConfig,
    RecurrentConfig,
    TrainConfig,
    TrainerConfig,
    TransformerConfig,
)
from seq2seq.errors import ConfigError
from seq2seq.training import hardware
from seq2seq.training.hardware import choose_training_precision, with_length_multiple

TINY, NARROW, WIDE = (TransformerConfig(d_model=width) for width in (64, 128, 512))
MANY_SHAPES, FEW_SHAPES = DataConfig(), DataConfig(length_multiple=0)


@pytest.mark.parametrize(
    ("model", "data", "chosen", "why"),
    [
        (WIDE, MANY_SHAPES, "bf16-mixed", "chosen, as this CPU has instructions for bf16"),
        (RecurrentConfig(), MANY_SHAPES, "bf16-mixed", "this CPU has instructions for bf16"),
        (NARROW, MANY_SHAPES, "32-true", "width 512 and more, or 128 with data.length_multiple=0"),
        (NARROW, FEW_SHAPES, "bf16-mixed", "chosen, as this CPU has instructions for bf16"),
        (TINY, MANY_SHAPES, "32-true", "chosen, as bf16 gains with models of width 512 and more"),
        (TINY, FEW_SHAPES, "32-true", "chosen, as bf16 gains with models of width 128 and more"),
    ],
)
def test_auto_on_a_cpu(monkeypatch, model: ModelConfig, data: DataConfig, chosen, why):
    monkeypatch.setattr(hardware, "cpu_has", lambda precision: True)
    found, reason = choose_training_precision(TrainerConfig(), "cpu", model, data)
    assert found == chosen
    assert reason.endswith(why)
    monkeypatch.setattr(hardware, "cpu_has", lambda precision: False)
    assert choose_training_precision(TrainerConfig(), "cpu", model, data) == ("32-true", "")


@pytest.mark.parametrize(
    ("model", "bf16", "accelerator", "precision", "expected"),
    [
        (NARROW, True, "cpu", "auto", 0),
        (NARROW, True, "cpu", "32-true", 1),
        (TINY, True, "cpu", "auto", 1),
        (TINY, True, "cpu", "bf16-mixed", 0),
        (TransformerConfig(d_model=128, max_length=100), True, "cpu", "auto", 1),  # it is no 8 * n
        (NARROW, False, "cpu", "auto", 1),
        (WIDE, True, "gpu", "auto", 1),
    ],
)
def test_bf16_on_a_cpu_gets_few_shapes(monkeypatch, model, bf16, accelerator, precision, expected):
    monkeypatch.setattr(hardware, "cpu_has", lambda precision: bf16)
    config = TrainConfig(model=model, trainer=TrainerConfig(precision=precision))
    found = with_length_multiple(config, accelerator)
    assert found.data.length_multiple == expected
    assert replace(found, data=replace(found.data, length_multiple=None)) == config
    given = TrainConfig(model=model, data=DataConfig(length_multiple=4))
    assert with_length_multiple(given, accelerator) == given


@pytest.mark.parametrize(("generation", "chosen"), [(9, "bf16-mixed"), (7, "16-mixed")])
def test_auto_on_a_gpu(monkeypatch, generation: int, chosen: str):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: (generation, 0))
    assert choose_training_precision(TrainerConfig(), "gpu", NARROW, FEW_SHAPES) == (chosen, "")


def test_a_precision_that_the_device_lacks(monkeypatch):
    with pytest.raises(ConfigError, match=r"16-mixed needs a GPU.*use trainer\.precision=32"):
        choose_training_precision(TrainerConfig(precision="16-mixed"), "cpu", WIDE, FEW_SHAPES)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: (7, 0))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "Tesla T4")
    with pytest.raises(ConfigError, match=r"Tesla T4 has no bf16 arithmetic; use .*16-mixed"):
        choose_training_precision(TrainerConfig(precision="bf16-mixed"), "gpu", WIDE, FEW_SHAPES)


def test_bf16_that_was_asked_for_on_a_cpu_without_it_is_said_to_be_slow(monkeypatch):
    monkeypatch.setattr(hardware, "cpu_has", lambda precision: False)
    asked = TrainerConfig(precision="bf16-mixed")
    assert choose_training_precision(asked, "cpu", WIDE, FEW_SHAPES) == (
        "bf16-mixed", "slow, as this CPU has no instructions for bf16",
    )  # fmt: skip


def test_the_question_for_instructions_survives_a_torch_without_it(monkeypatch):
    for name in ("_is_amx_tile_supported", "_is_avx512_bf16_supported"):
        monkeypatch.delattr(torch.cpu, name, raising=False)
    assert not hardware.cpu_has("bfloat16")


def train(steps: int, gradient_clip: float = 1.0, **options) -> Recorder:
    recorder = Recorder()
    tiny_fit(tiny_task(), [recorder], steps, gradient_clip=gradient_clip, val_every_n_steps=99,
             **options)
    return recorder


def test_fp16_finds_its_scale_after_overflows_and_then_learns():
    recorder = Recorder()
    trainer = tiny_fit(
        tiny_task(), [recorder], 60, val_every_n_steps=99, ema=0.9, fabric=fp16(init_scale=2.0**40)
    )
    overflowed = [not math.isfinite(norm) for norm in recorder.norm]
    skipped = sum(overflowed)
    assert 5 < skipped < 40
    assert overflowed == [True] * skipped + [False] * (60 - skipped)
    assert trainer.scaler.get_scale() == 2.0 ** (40 - skipped)
    assert recorder.faults == [None] * 60  # the scaler's business, no loss spikes
    first, last = recorder.weights[0], recorder.weights[skipped - 1]
    assert all(first[name].equal(last[name]) for name in first)
    assert not recorder.moments[skipped - 1]
    assert trainer.ema.updates == 60 - skipped
    assert sum(recorder.nll[-5:]) < sum(recorder.nll[:5]) - 0.5


def test_fp16_that_cannot_scale_less_is_a_bad_step():
    recorder, task = Recorder(), tiny_task()
    task.model.output.weight.register_hook(lambda gradient: gradient + math.inf)
    trainer = tiny_fit(task, [recorder], 5, fabric=fp16(init_scale=4.0))
    assert recorder.faults == [None, None, *["the gradient norm is inf"] * 3]
    assert trainer.scaler.get_scale() < 1


@pytest.mark.parametrize("clip", [0.0, 0.1])
@pytest.mark.parametrize("options", [{"precision": "bf16-mixed"}, {"fabric": None}])
def test_each_precision_clips_the_gradients_of_fp32(clip, options):
    """Norms before clipping agree, so they are unscaled by then; and so do the first updates."""
    if "fabric" in options:
        options = {"fabric": fp16(init_scale=1024.0)}
    exact, half = train(4, clip), train(4, clip, **options)
    assert half.faults == [None] * 4
    assert half.nll == pytest.approx(exact.nll, rel=0.01)
    assert half.norm == pytest.approx(exact.norm, rel=0.05)
    if clip:
        assert min(exact.norm) > 2 * clip
    # The first moment is (1 - beta1) times the clipped gradient: its norm shows the clipping.
    moments = [run.moments[0][1::3] for run in (exact, half)]
    norms = [torch.cat([m.flatten() for m in moment]).norm().item() / 0.1 for moment in moments]
    expected = min(clip or math.inf, exact.norm[0])
    assert norms == pytest.approx([expected, expected], rel=0.02)
