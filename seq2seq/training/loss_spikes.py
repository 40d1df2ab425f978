"""Skipped steps: a step is skipped if its loss or gradient is not finite, or if its loss jumps.

Tensors on the training device judge a step. A CPU reads the verdict at once. A GPU skips the step
by itself, and the host reads the reason one step later, so that the host need not wait.
"""

from __future__ import annotations

import json
import logging
from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from seq2seq.config import TrainerConfig
from seq2seq.errors import RunError, command_line
from seq2seq.training.run_folder import Run

if TYPE_CHECKING:
    from seq2seq.data.datamodule import TranslationData

log = logging.getLogger(__name__)

REMEMBERED = 100  # good steps that the running average covers
WARM_UP_STEPS = 20  # good steps until the loss is settled enough to tell a jump
MOST_IN_A_ROW = 10  # skipped steps in a row that end the run
GOOD, LOSS_NOT_FINITE, GRADIENT_NOT_FINITE, JUMP = range(4)


class Verdict(NamedTuple):
    """The verdict on an update, and the figures behind it."""

    fault: float  # `GOOD`, or why the step was skipped
    nll: float  # nats per target token
    average: float  # of recent good steps, before this one
    norm: float  # of the gradient before clipping
    in_a_row: float  # skipped steps since the last good one

    def reason(self, threshold: float) -> str:
        """Describe the fault in words; `threshold` is `trainer.max_loss_spike`."""
        if self.fault == LOSS_NOT_FINITE:
            return f"the loss is {self.nll}"
        if self.fault == GRADIENT_NOT_FINITE:
            return f"the gradient norm is {self.norm}"
        return f"the loss jumped by more than trainer.max_loss_spike={threshold:g}"


class LossSpikes:
    """Judges each update before it is made. Its figures are equal in all processes.

    Args:
        threshold: nats per token above the running average that make a spike.
        device: device of the losses.
    """

    def __init__(self, threshold: float, device: torch.device | str = "cpu"):
        self.threshold = threshold
        # Mean nats per token of recent good steps; count of good steps; count of skipped steps in
        # a row.
        self._state = torch.zeros(3, dtype=torch.float64, device=device)
        # Step, verdict (5,), and when it is on the CPU. Readers are one step late at most.
        self._unread: deque[tuple[int, Tensor, torch.cuda.Event | None]] = deque(maxlen=2)

    def judge(self, step: int, nll: Tensor, norm: Tensor) -> Tensor:
        """Judge an update; return whether to skip it: (), on the device. `read` returns the reason.

        Each good step updates the running average.

        Args:
            step: number of the update.
            nll: nats per target token, over all processes and accumulated batches.
            norm: norm of the gradient before clipping.
        """
        nll, norm = nll.double(), norm.double()
        average, good, in_a_row = self._state.unbind()
        jump = (good >= WARM_UP_STEPS) & (nll > average + self.threshold)
        fault = torch.where(jump, JUMP, GOOD)
        fault = torch.where(norm.isfinite(), fault, GRADIENT_NOT_FINITE)
        fault = torch.where(nll.isfinite(), fault, LOSS_NOT_FINITE)
        fine = fault == GOOD
        good = good + fine
        moved = average + (nll - average) / good.clamp(1, REMEMBERED)
        in_a_row = torch.where(fine, 0.0, in_a_row + 1)
        self._state = torch.stack([torch.where(fine, moved, average), good, in_a_row])
        verdict, arrived = torch.stack([fault.double(), nll, average, norm, in_a_row]), None
        if verdict.is_cuda:  # send it to the host, which need not wait for later steps
            verdict = verdict.to("cpu", non_blocking=True)
            arrived = torch.cuda.Event()  # type: ignore[no-untyped-call]
            arrived.record()
        self._unread.append((step, verdict, arrived))
        return ~fine

    def read(self, last: int) -> Iterator[tuple[int, Verdict]]:
        """Yield the steps up to `last` whose verdicts were not read yet, and these verdicts."""
        while self._unread and self._unread[0][0] <= last:
            step, verdict, arrived = self._unread.popleft()
            if arrived is not None:
                arrived.synchronize()
            yield step, Verdict(*verdict.tolist())

    def state_dict(self) -> dict[str, float]:
        average, good, in_a_row = self._state.tolist()
        return {"average": average, "good": int(good), "in_a_row": int(in_a_row)}

    def load_state_dict(self, state: dict[str, float]) -> None:
        values = [state["average"], state["good"], state["in_a_row"]]
        self._state = torch.tensor(values, dtype=torch.float64, device=self._state.device)


class SkippedSteps:
    """Reports skipped steps: the reason, and where in the data their batches are.

    Args:
        config: has `max_loss_spike`; and `on_loss_spike`, which says whether the first skipped step
            ends the run, or only `MOST_IN_A_ROW` of them in a row.

    Attributes:
        error: ends the run once its state is saved; None = the run continues.
    """

    def __init__(self, run: Run, config: TrainerConfig, data: TranslationData):
        self.run, self.config, self.data = run, config, data
        self.error: RunError | None = None

    def report(self, step: int, verdict: Verdict) -> None:
        """Log a skipped step, or set `error`; `step` counts from 1."""
        reason, place = verdict.reason(self.config.max_loss_spike), self.data.place(step - 1)
        what = (
            f"step {step} was left out: {reason} ({verdict.nll:.3g} nats per token, recent average "
            f"{verdict.average:.3g}, gradient norm {verdict.norm:.3g}). Its batches begin at "
            f"{json.dumps(place)}"
        )
        if verdict.in_a_row >= MOST_IN_A_ROW:
            self.error = RunError(
                f"{what}. The run diverged: its last {MOST_IN_A_ROW} steps were bad. Start a new "
                "one with a lower optim.lr, a longer optim.warmup_steps or "
                "trainer.precision=32-true"
            )
        elif self.config.on_loss_spike == "stop":
            resume = f"resume={self.run.folder}"
            self.error = RunError(
                f"{what}. The state before it is saved. To continue after these batches: "
                f"{command_line('train', resume, 'trainer.on_loss_spike=skip')}"
            )
        elif self.run.processes.rank == 0:
            log.warning("%s", what)
