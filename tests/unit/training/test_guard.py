"""A bad step is judged as such, and leaves no trace but in the schedule and the report."""

from __future__ import annotations

import math
from typing import ClassVar

import lightning as L
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tiny_training import Recorder, tiny_fit, tiny_task

from seq2seq.callbacks.ema import EMA
from seq2seq.training.guard import REMEMBERED, WARM_UP, Guard


class Poison(L.Callback):
    """In some batches, multiplies hidden states or a gradient."""

    def __init__(self, where: str, factor: float, *batches: int):
        self.where, self.factor, self.batches = where, factor, batches

    def on_train_batch_start(self, trainer, pl_module, batch, batch_idx):
        self.now = batch_idx in self.batches
        if self.now and self.where == "hidden":
            def poisoned(module, given, hidden):
                return hidden * self.factor

            self.hook = pl_module.model.register_forward_hook(poisoned)

    def on_after_backward(self, trainer, pl_module):
        if self.now and self.where == "gradient":
            pl_module.model.output.weight.grad.mul_(self.factor)
        elif self.now:
            self.hook.remove()


def assert_same(some, others) -> None:
    assert len(some) == len(others)
    for one, other in zip(some, others, strict=True):
        assert one.equal(other)


@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed"])
@pytest.mark.parametrize(
    ("poison", "fault"),
    [
        (Poison("gradient", math.nan, 2), "the gradient norm is nan"),
        (Poison("gradient", math.inf, 2), "the gradient norm is inf"),
        (Poison("hidden", math.nan, 2), "the loss is nan"),
    ],
    ids=["nan-gradient", "inf-gradient", "nan-loss"],
)
def test_weights_and_optimiser_are_untouched_and_the_next_step_is_made(precision, poison, fault):
    recorder = Recorder()
    trainer = tiny_fit(tiny_task(), [poison, recorder], 5, precision=precision)
    assert recorder.faults == [None, None, fault, None, None]
    before, after, later = recorder.weights[1:4]
    assert_same(before.values(), after.values())
    assert_same(recorder.moments[1], recorder.moments[2])
    assert not any(before[name].equal(later[name]) for name in before if "weight" in name)
    assert trainer.global_step == trainer.lr_scheduler_configs[0].scheduler.last_epoch == 5
    assert all(value.isfinite().all() for value in recorder.weights[-1].values())


def test_a_first_step_may_be_bad_and_one_of_accumulated_batches_spoils_the_update():
    recorder = Recorder()
    poison = Poison("hidden", math.nan, 1)
    tiny_fit(tiny_task(), [poison, recorder], 2, accumulate_grad_batches=2)
    assert recorder.faults == ["the loss is nan", None]
    assert not recorder.moments[0]
    assert recorder.moments[1]


def test_a_bad_step_names_its_batches_and_figures():
    seen = []

    class Look(L.Callback):
        def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
            if pl_module.bad_step:
                seen.append((batch_idx, pl_module.bad_step))

    poison = Poison("gradient", math.inf, 3)
    recorder = Recorder()
    tiny_fit(tiny_task(), [poison, recorder, Look()], 3, accumulate_grad_batches=2)
    [(number, bad)] = seen
    assert number == 3  # of batches 2 and 3, the second ends the step
    assert len(bad.batches) == 2
    assert bad.norm == math.inf
    assert bad.nll == pytest.approx(recorder.nll[1])
    assert bad.average == pytest.approx(recorder.nll[0])


@given(
    losses=st.lists(st.floats(0, 4), min_size=WARM_UP, max_size=3 * REMEMBERED),
    jump=st.floats(0.1, 50),
)
def test_a_jump_is_more_than_so_much_above_the_average(losses, jump):
    guard = Guard(spike=5.0)
    average = 0.0
    for count, nll in enumerate(losses, start=1):
        assert guard.fault(nll, 1.0) is None
        average += (nll - average) / min(count, REMEMBERED)
    assert guard.average == pytest.approx(average)
    fault = guard.fault(average + jump, 1.0)
    assert (fault == "the loss jumped by more than trainer.max_loss_spike=5") == (jump > 5.0)


def test_the_average_is_the_plain_mean_at_first_and_follows_later():
    guard = Guard(spike=5.0)
    losses = torch.linspace(9, 3, REMEMBERED).tolist()
    for nll in losses:
        guard.fault(nll, 1.0)
    assert guard.average == pytest.approx(sum(losses) / len(losses))
    for _ in range(5 * REMEMBERED):
        guard.fault(3.0, 1.0)
    assert guard.average == pytest.approx(3.0, abs=0.05)


def test_no_jump_is_seen_before_the_average_has_settled():
    guard = Guard(spike=1.0)
    for nll in range(WARM_UP):  # each a nat above the one before
        assert guard.fault(3.0 * nll, 1.0) is None
    assert guard.fault(3.0 * WARM_UP + 1, 1.0) is not None


def test_bad_steps_do_not_move_the_average_and_are_counted_in_a_row():
    guard = Guard(spike=5.0)
    guard.fault(3.0, 1.0)
    for count in range(1, 4):
        assert guard.fault(math.nan, 1.0) == "the loss is nan"
        assert guard.in_a_row == count
    assert guard.average == 3.0
    guard.fault(3.0, 1.0)
    assert guard.in_a_row == 0


def test_a_run_that_goes_on_judges_as_if_it_had_never_stopped(tmp_path):
    whole, first, second = tiny_task(), tiny_task(), tiny_task()
    poison = Poison("hidden", math.nan, 3)
    tiny_fit(whole, [poison], 8)
    trainer = tiny_fit(first, [poison], 4)
    assert first.guard.in_a_row == 1
    trainer.save_checkpoint(tmp_path / "state.ckpt")
    tiny_fit(second, [], 8, first_batch=4, checkpoint=tmp_path / "state.ckpt")
    assert second.guard.state_dict() == whole.guard.state_dict()
    assert whole.guard.good == 7


def test_the_moving_average_of_weights_is_left_alone():
    class Shadow(L.Callback):
        """The average after each step; stands behind the EMA."""

        seen: ClassVar[list[tuple[int, torch.Tensor]]] = []

        def on_train_batch_end(self, *_):
            self.seen.append((ema.updates, next(iter(ema.shadow.values())).clone()))

    ema, shadow = EMA(0.5), Shadow()
    tiny_fit(tiny_task(), [Poison("hidden", math.nan, 2), ema, shadow], 4)
    assert [updates for updates, _ in shadow.seen] == [1, 2, 2, 3]
    assert shadow.seen[1][1].equal(shadow.seen[2][1])
    assert not shadow.seen[2][1].equal(shadow.seen[3][1])
