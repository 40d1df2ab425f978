"""Steps that are skipped: the loss or the gradient is not finite, or the loss jumps.

The judgement is made by tensors on the device that trains. A CPU reads it at once; a GPU leaves
the step out by itself, and the host reads one step later why, so that it need not wait.
"""

from __future__ import annotations

import json
import logging
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from seq2seq.data.collate import Batch
from seq2seq.data.tokenizer import PAD
from seq2seq.data.vocabularies import Vocabularies
from seq2seq.errors import RunError

log = logging.getLogger(__name__)

REMEMBERED = 100  # good steps that the running average goes back
WARM_UP_STEPS = 20  # good steps before a jump can be told from a loss that is still unsettled
MOST_IN_A_ROW = 10  # skipped steps in a row after which nothing good is to be expected
GOOD, LOSS_NOT_FINITE, GRADIENT_NOT_FINITE, JUMP = range(4)


class LossSpikes:
    """Judges each update before it is made. Its figures are equal in all processes.

    Args:
        threshold: nats per token above the running average that make a spike.
        device: of the losses.
    """

    def __init__(self, threshold: float, device: torch.device | str = "cpu"):
        self.threshold = threshold
        # Nats per token over recent good steps; number of good steps; of skipped ones in a row.
        self._state = torch.zeros(3, dtype=torch.float64, device=device)

    def judge(self, nll: Tensor, norm: Tensor) -> Tensor:
        """A step's fault (0 = good), nll, average before it, norm, skipped steps in a row: (5,).

        The average moves on with each good step.

        Args:
            nll: nats per target token, over all processes and accumulated batches.
            norm: of the gradient before clipping.
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
        return torch.stack([fault.double(), nll, average, norm, in_a_row])

    def state_dict(self) -> dict[str, float]:
        average, good, in_a_row = self._state.tolist()
        return {"average": average, "good": int(good), "in_a_row": int(in_a_row)}

    def load_state_dict(self, state: dict[str, float]) -> None:
        values = [state["average"], state["good"], state["in_a_row"]]
        self._state = torch.tensor(values, dtype=torch.float64, device=self._state.device)


@dataclass
class Judgement:
    """A judgement on its way from the device to the host.

    Attributes:
        step: of the update, from 1.
        verdict: what `LossSpikes.judge` returned.
        batches: those of this process.
    """

    step: int
    verdict: Tensor
    batches: list[Batch]

    def __post_init__(self) -> None:
        self._event = None
        if self.verdict.is_cuda:
            self.verdict = self.verdict.to("cpu", non_blocking=True)
            self._event = torch.cuda.Event()  # type: ignore[no-untyped-call]
            self._event.record()

    def read(self) -> SkippedStep | None:
        """Why the step was skipped; None if it was good. Waits for the GPU to come by."""
        if self._event is not None:
            self._event.synchronize()
        fault, nll, average, norm, in_a_row = self.verdict.tolist()
        if fault == GOOD:
            return None
        return SkippedStep(self.step, int(fault), nll, average, norm, int(in_a_row), self.batches)


@dataclass
class SkippedStep:
    """An update that was left out, so that weights and optimiser are as before it.

    Attributes:
        step: which one, from 1.
        fault: what was wrong.
        nll: nats per target token.
        average: of recent good steps.
        norm: of the gradient before clipping.
        in_a_row: skipped steps since the last good one.
        batches: those of this process.
    """

    step: int
    fault: int
    nll: float
    average: float
    norm: float
    in_a_row: int
    batches: list[Batch]

    def reason(self, threshold: float) -> str:
        """What was wrong, in words."""
        if self.fault == LOSS_NOT_FINITE:
            return f"the loss is {self.nll}"
        if self.fault == GRADIENT_NOT_FINITE:
            return f"the gradient norm is {self.norm}"
        return f"the loss jumped by more than trainer.max_loss_spike={threshold:g}"


class SkippedSteps:
    """Writes the sentences of each skipped step to `<run>/bad_steps/step-N.json`, and says so.

    Args:
        run_dir: folder of the run.
        rank: of this process.
        vocabularies: those of the model.
        threshold: `trainer.max_loss_spike`.
        stop: whether the first skipped step stops the run, or only `MOST_IN_A_ROW`.

    Attributes:
        error: what ends the run once its state is saved; None = it goes on.
    """

    def __init__(
        self, run_dir: Path, rank: int, vocabularies: Vocabularies, threshold: float, stop: bool
    ):
        self.run_dir, self.rank, self.vocabularies = run_dir, rank, vocabularies
        self.threshold, self.stop = threshold, stop
        self.error: RunError | None = None

    def report(self, skipped: SkippedStep) -> None:
        """Log a skipped step, or set `error`."""
        reason = skipped.reason(self.threshold)
        what = (
            f"step {skipped.step} was left out: {reason} ({skipped.nll:.3g} nats per token, recent "
            f"average {skipped.average:.3g}, gradient norm {skipped.norm:.3g}). "
            f"{self._write(skipped, reason)}"
        )
        if skipped.in_a_row >= MOST_IN_A_ROW:
            self.error = RunError(
                f"{what}. The run diverged: its last {MOST_IN_A_ROW} steps were bad. Start a new "
                "one with a lower optim.lr, a longer optim.warmup_steps or "
                "trainer.precision=32-true"
            )
        elif self.stop:
            self.error = RunError(
                f"{what}. The state before it is saved. To go on behind these sentences: "
                f"python scripts/train.py resume={self.run_dir} trainer.on_loss_spike=skip"
            )
        else:
            log.warning("%s", what)

    def _write(self, skipped: SkippedStep, reason: str) -> str:
        """Keep the sentences of this process; says where they are."""
        suffix = f"-rank{self.rank}" if self.rank else ""
        path = self.run_dir / "bad_steps" / f"step-{skipped.step:08d}{suffix}.json"
        content = {
            "step": skipped.step,
            "reason": reason,
            "nll": _number(skipped.nll),
            "average": _number(skipped.average),
            "gradient_norm": _number(skipped.norm),
            "batches": [self._sentences(batch) for batch in skipped.batches],
        }
        try:
            path.parent.mkdir(exist_ok=True)
            text = json.dumps(content, ensure_ascii=False, indent=1)
            path.write_text(text + "\n", encoding="utf-8")
        except OSError as error:
            return f"Its sentences could not be written: {error}"
        return f"Its sentences are in {path}"

    def _sentences(self, batch: Batch) -> list[dict[str, Any]]:
        rows = []
        for source, target in zip(batch.source.tolist(), batch.labels.tolist(), strict=True):
            source_ids, target_ids = ([i for i in ids if i != PAD] for ids in (source, target))
            row = {
                "source": self.vocabularies.source.decode([source_ids])[0],
                "target": self.vocabularies.target.decode([target_ids])[0],
                "source_ids": str(source_ids),  # as text, they stand in one line
                "target_ids": str(target_ids),
            }
            rows.append(row)
        return rows


def _number(value: float) -> float | str:
    """As JSON can hold it, which knows neither NaN nor infinity."""
    return value if math.isfinite(value) else str(value)
