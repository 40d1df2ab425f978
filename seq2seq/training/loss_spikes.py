"""Skipped steps: a step is skipped if its loss or gradient is not finite, or if its loss jumps.

Tensors on the training device judge a step. A CPU reads the verdict at once. A GPU skips the step
by itself, and the host reads the reason one step later, so that the host need not wait.
"""

from __future__ import annotations

import json
import logging
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from seq2seq.config import TrainerConfig
from seq2seq.errors import RunError, command_line
from seq2seq.training.run_folder import Run

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


def report_skipped_step(
    step: int, verdict: Verdict, place: Mapping[str, Any], *, run: Run, config: TrainerConfig
) -> RunError | None:
    """Log a skipped step, or return the error that ends the run once its state is saved.

    Args:
        step: counts from 1.
        place: where in the data its batches are.
    """
    what = (
        f"step {step} was left out: {verdict.reason(config.max_loss_spike)} ({verdict.nll:.3g} "
        f"nats per token, recent average {verdict.average:.3g}, gradient norm {verdict.norm:.3g}). "
        f"Its batches begin at {json.dumps(place)}"
    )
    if verdict.in_a_row >= MOST_IN_A_ROW:
        return RunError(
            f"{what}. The run diverged: its last {MOST_IN_A_ROW} steps were bad. Start a new one "
            "with a lower optim.lr, a longer optim.warmup_steps or trainer.precision=32-true"
        )
    if config.on_loss_spike == "stop":
        resume = command_line("train", f"resume={run.folder}", "trainer.on_loss_spike=skip")
        return RunError(
            f"{what}. The state without it is saved. To continue after these batches: {resume}"
        )
    if run.processes.rank == 0:
        log.warning("%s", what)
    return None
