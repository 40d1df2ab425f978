"""A bad step is judged as such, and leaves no trace but in the schedule and the report."""

from __future__ import annotations

import math
import os
import signal

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_training import (
    KeptFaults,
    Recorder,
    TinyData,
    TinyValidation,
    tiny_fit,
    tiny_task,
    tiny_trainer,
    without_saving,
)

from seq2seq.config import CheckpointConfig, OptimConfig
from seq2seq.errors import RunError
from seq2seq.training.callbacks import Callback
from seq2seq.training.checkpointing import newest_checkpoint, step_of
from seq2seq.training.loss_spikes import (
    GOOD,
    JUMP,
    LOSS_NOT_FINITE,
    REMEMBERED,
    WARM_UP_STEPS,
    LossSpikes,
)


def poison(task, where: str, factor: float, *batches: int):
    """Multiply hidden states or a gradient, in some batches of training."""
    seen = [-1]

    def hidden(module, given, output):
        if module.training:
            seen[0] += 1
        return output * factor if module.training and seen[0] in batches else output

    def gradient(value):
        return value * factor if seen[0] in batches else value

    task.model.register_forward_hook(hidden if where == "hidden" else lambda *_: count())
    if where == "gradient":
        task.model.output.weight.register_hook(gradient)

    def count():
        seen[0] += task.model.training

    return task


class SkipsOnDevice(Callback):
    def on_train_start(self, trainer):
        trainer.skips_on_device = True


def assert_same(some, others) -> None:
    assert len(some) == len(others)
    for one, other in zip(some, others, strict=True):
        assert one.equal(other)


@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed"])
@pytest.mark.parametrize(
    ("where", "factor", "fault"),
    [
        ("gradient", math.nan, "the gradient norm is nan"),
        ("gradient", math.inf, "the gradient norm is inf"),
        ("hidden", math.nan, "the loss is nan"),
    ],
)
def test_weights_and_optimiser_are_untouched_and_the_next_step_is_made(
    precision, where, factor, fault
):
    recorder = Recorder()
    task = poison(tiny_task(), where, factor, 2)
    trainer = tiny_fit(task, [recorder], 5, precision=precision)
    assert recorder.faults == [None, None, fault, None, None]
    before, after, later = recorder.weights[1:4]
    assert_same(before.values(), after.values())
    assert_same(recorder.moments[1], recorder.moments[2])
    assert not any(before[name].equal(later[name]) for name in before if "weight" in name)
    assert trainer.step == 5
    rate = trainer.metrics["optim/lr"]
    assert rate == pytest.approx(0.01 * math.sqrt(2 / 5))  # it moves on
    assert {group["lr"] for group in trainer.optimizer.param_groups} == {rate}
    assert all(value.isfinite().all() for value in recorder.weights[-1].values())


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
@pytest.mark.parametrize("bad", [0, 2])
def test_a_device_that_skips_by_itself_ends_with_the_same_weights_and_tells_one_step_later(
    optimizer, bad
):
    """The way of a GPU: nothing waits for the judgement, and the optimiser reads the flag."""

    optim = OptimConfig(
        optimizer=optimizer, schedule="wsd", lr=0.01, warmup_steps=1, weight_decay=0.1
    )
    waiting, on_device, averages = Recorder(), Recorder(), []
    for recorder, callbacks, late in ((waiting, [], 0), (on_device, [SkipsOnDevice()], 1)):

        class Dated(KeptFaults):
            def report(self, step, verdict, *_, recorder=recorder, **__):
                super().report((step, recorder.trainer.step), verdict)

        kept = Dated()
        task = poison(tiny_task(optim), "hidden", math.nan, bad)
        trainer = tiny_fit(task, [recorder, *callbacks], 5, skipped_steps=kept, ema=0.5)
        averages.append(trainer.ema.shadow)
        assert [when for when, _ in kept.skipped] == [(bad + 1, bad + 1 + late)]
    assert on_device.skipped == waiting.skipped == [number == bad for number in range(5)]
    for ours, theirs in zip(on_device.weights, waiting.weights, strict=True):
        assert_same(ours.values(), theirs.values())
    assert_same(on_device.moments[-1], waiting.moments[-1])
    assert_same(averages[1].values(), averages[0].values())
    if bad:  # else one has zeros where the other has nothing yet
        assert_same(on_device.moments[bad], waiting.moments[bad])
        assert_same(on_device.moments[bad], on_device.moments[bad - 1])


def test_a_first_step_may_be_bad_and_one_of_accumulated_batches_spoils_the_update():
    recorder = Recorder()
    tiny_fit(poison(tiny_task(), "hidden", math.nan, 1), [recorder], 2, accumulate=2)
    assert recorder.faults == ["the loss is nan", None]
    assert not recorder.moments[0]
    assert recorder.moments[1]


def test_a_skipped_step_has_its_number_and_figures():
    recorder, kept = Recorder(), KeptFaults()
    task = poison(tiny_task(), "gradient", math.inf, 3)
    tiny_fit(task, [recorder], 3, accumulate=2, skipped_steps=kept)
    [(step, verdict)] = kept.skipped
    assert step == 2  # of batches 2 and 3
    assert verdict.norm == math.inf
    assert verdict.nll == pytest.approx(recorder.nll[1])
    assert verdict.average == pytest.approx(recorder.nll[0])


def judge(spikes: LossSpikes, nll: float, norm: float = 1.0) -> int:
    skipped = spikes.judge(7, torch.tensor(nll, dtype=torch.float64), torch.tensor(norm))
    assert not list(spikes.read(6))
    [(step, verdict)] = spikes.read(7)
    assert step == 7
    assert not list(spikes.read(7))  # once only
    assert bool(skipped) == (verdict.fault != GOOD)
    return int(verdict.fault)


@settings(deadline=None)
@given(
    losses=st.lists(st.floats(0, 4, width=32), min_size=WARM_UP_STEPS, max_size=2 * REMEMBERED),
    jump=st.floats(0.1, 50),
)
def test_a_jump_is_more_than_so_much_above_the_average(losses, jump):
    spikes = LossSpikes(threshold=5.0)
    average = 0.0
    for count, nll in enumerate(losses, start=1):
        assert judge(spikes, nll) == GOOD
        average += (nll - average) / min(count, REMEMBERED)
    known = spikes.state_dict()["average"]
    assert known == pytest.approx(average)
    nll = known + jump
    assert (judge(spikes, nll) == JUMP) == (nll > known + 5.0)


def test_no_jump_is_seen_before_the_average_has_settled():
    spikes = LossSpikes(threshold=1.0)
    for nll in range(WARM_UP_STEPS):  # each a nat above the one before
        assert judge(spikes, 3.0 * nll) == GOOD
    assert judge(spikes, 3.0 * WARM_UP_STEPS + 1) == JUMP


def test_skipped_steps_do_not_move_the_average_and_are_counted_in_a_row():
    spikes = LossSpikes(threshold=5.0)
    judge(spikes, 3.0)
    for count in range(1, 4):
        assert judge(spikes, math.nan) == LOSS_NOT_FINITE
        assert spikes.state_dict() == {"average": 3.0, "good": 1, "in_a_row": count}
    judge(spikes, 3.0)
    assert spikes.state_dict()["in_a_row"] == 0


def test_a_run_that_goes_on_judges_as_if_it_had_never_stopped(tmp_path):
    whole = tiny_fit(poison(tiny_task(), "hidden", math.nan, 3), [], 8)
    first = tiny_fit(poison(tiny_task(), "hidden", math.nan, 3), [], 4, run_dir=tmp_path,
                     save_every=4)
    assert first.spikes.state_dict()["in_a_row"] == 1
    checkpoint = tmp_path / "checkpoints" / "step-00000004.ckpt"
    second = tiny_fit(tiny_task(), [], 8, checkpoint=checkpoint, run_dir=tmp_path)
    assert second.spikes.state_dict() == whole.spikes.state_dict()
    assert whole.spikes.state_dict()["good"] == 7


def test_a_bad_step_ends_a_run_that_a_signal_would_end_too(tmp_path):
    """On a GPU, whose verdict on a step is read after it."""

    class Stops(KeptFaults):
        def report(self, step, *_, **__):
            return RunError(f"step {step} was bad")

    class Signal(Callback):
        def on_step_end(self, trainer, batches):
            if trainer.step == 3:
                os.kill(os.getpid(), signal.SIGTERM)

    task = poison(tiny_task(), "hidden", math.nan, 2)
    with pytest.raises(RunError, match="step 3 was bad"):
        tiny_fit(task, [Signal(), SkipsOnDevice()], 7, run_dir=tmp_path, save_every=9,
                 skipped_steps=Stops(), val_every_n_steps=9)
    assert step_of(newest_checkpoint(tmp_path)) == 3


def test_the_moving_average_of_weights_is_left_alone():
    seen: list[tuple[int, torch.Tensor]] = []

    class Shadow(Callback):
        def on_step_end(self, trainer, batches):
            value = next(iter(trainer.ema.shadow.values()))
            seen.append((int(trainer.ema.updates), value.clone()))

    tiny_fit(poison(tiny_task(), "hidden", math.nan, 2), [Shadow()], 4, ema=0.5)
    assert [updates for updates, _ in seen] == [1, 2, 2, 3]
    assert seen[1][1].equal(seen[2][1])
    assert not seen[2][1].equal(seen[3][1])


def test_the_message_names_the_batches_of_the_skipped_step(caplog):
    task, calls = tiny_task(), iter(range(9))

    def third_is_nan(model, _, hidden):
        return hidden * math.nan if model.training and next(calls) == 2 else hidden

    task.model.register_forward_hook(third_is_nan)
    trainer = without_saving(tiny_trainer(task, 4))
    trainer.fit(TinyData(), TinyValidation(), CheckpointConfig())
    [told] = [message for message in caplog.messages if "was left out" in message]
    assert told.startswith("step 3 ")
    assert told.endswith('begin at {"batch": 2}')
