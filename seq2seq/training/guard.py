"""Bad steps: losses and gradients that are no numbers, and sudden jumps of the loss."""

from __future__ import annotations

import math
from dataclasses import dataclass

from seq2seq.data.collate import Batch

REMEMBERED = 100  # good steps that the running average goes back
WARM_UP = 20  # good steps before a jump can be told from a loss that is still unsettled


@dataclass
class BadStep:
    """An update that was left out, so that weights and optimiser are as before it.

    Attributes:
        reason: what was wrong, in words.
        nll: nats per target token, over all processes and accumulated batches.
        average: of recent good steps.
        norm: of the gradient before clipping.
        batches: those of this process.
    """

    reason: str
    nll: float
    average: float
    norm: float
    batches: list[Batch]


class Guard:
    """Judges each update before it is made. Its figures are equal in all processes.

    Args:
        spike: nats per token above the running average that make a jump.

    Attributes:
        average: nats per token over recent good steps.
        good: number of good steps.
        in_a_row: number of bad steps since the last good one.
    """

    def __init__(self, spike: float):
        self.spike = spike
        self.average, self.good, self.in_a_row = 0.0, 0, 0

    def fault(self, nll: float, norm: float) -> str | None:
        """What is wrong with a step; None if it is good, and then the average moves on."""
        if not math.isfinite(nll):
            reason = f"the loss is {nll}"
        elif not math.isfinite(norm):
            reason = f"the gradient norm is {norm}"
        elif self.good >= WARM_UP and nll > self.average + self.spike:
            reason = f"the loss jumped by more than trainer.max_loss_spike={self.spike:g}"
        else:
            self.good, self.in_a_row = self.good + 1, 0
            self.average += (nll - self.average) / min(self.good, REMEMBERED)
            return None
        self.in_a_row += 1
        return reason

    def state_dict(self) -> dict[str, float]:
        return {"average": self.average, "good": self.good, "in_a_row": self.in_a_row}

    def load_state_dict(self, state: dict[str, float]) -> None:
        self.average = state["average"]
        self.good, self.in_a_row = int(state["good"]), int(state["in_a_row"])
