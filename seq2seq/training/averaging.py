"""Averages of weights: a moving average (EMA) over steps, and one of snapshots at the end."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from seq2seq.bundle.averaging import Snapshot, choose, read_snapshots, save_snapshot
from seq2seq.model.translation_model import TranslationModel
from seq2seq.training.distributed import Processes

log = logging.getLogger(__name__)


class EMA:
    """An exponential moving average of the weights, which is validated and shipped.

    After update number t (from 0) of the weights w, shadow = d * shadow + (1 - d) * w. The decay
    d = min(decay, (1 + t) / (10 + t)), the rule of TensorFlow's ExponentialMovingAverage, soon
    forgets the random initial weights. All processes hold equal weights, so their shadows are
    equal. A skipped step does not count.

    Args:
        decay: largest d; the average then remembers about 1 / (1 - decay) steps.
    """

    def __init__(self, model: nn.Module, decay: float):
        self.decay, self.weights = decay, dict(model.named_parameters())  # tied weights once
        device = next(iter(self.weights.values())).device
        self.updates = torch.zeros((), dtype=torch.float64, device=device)
        self.shadow = {
            name: weight.detach().to(torch.float32, copy=True)
            for name, weight in self.weights.items()
        }

    @torch.no_grad()
    def update(self, skipped: Tensor) -> None:
        """Update the average after a step.

        Args:
            skipped: (), on the device: whether the step was skipped. The host does not wait for it.
        """
        decay = ((1 + self.updates) / (10 + self.updates)).clamp(max=self.decay)
        amount = torch.where(skipped, 0.0, 1 - decay).float()
        for shadow, weight in zip(self.shadow.values(), self.weights.values(), strict=True):
            shadow.lerp_(weight.float(), amount)
        self.updates += ~skipped

    @contextmanager
    @torch.no_grad()
    def weights_in(self) -> Iterator[None]:
        """Give the model the averaged weights inside the block, and restore its own after it."""
        weights: list[Tensor] = list(self.weights.values())
        raw = [weight.detach().clone() for weight in weights]
        torch._foreach_copy_(weights, list(self.shadow.values()))
        try:
            yield
        finally:
            torch._foreach_copy_(weights, raw)

    def state_dict(self) -> dict[str, Any]:
        return {"updates": int(self.updates), "shadow": self.shadow}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.updates.fill_(state_dict["updates"])
        for name, shadow in self.shadow.items():
            shadow.copy_(state_dict["shadow"][name])


class Snapshots:
    """Validated weights in `<run>/snapshots`, as many as the average at the end may need.

    A snapshot holds the weights that were validated: the moving average, if there is one.

    Args:
        count: snapshots in the average.
        by: `last`, or `best` by validation BLEU.
    """

    def __init__(self, run_dir: Path, processes: Processes, count: int, by: str):
        self.run_dir, self.processes, self.count, self.by = run_dir, processes, count, by

    def forget_after(self, step: int) -> None:
        """Remove snapshots of later steps than `step`, where the run resumes; collective.

        Raises:
            UserError, OSError: a snapshot is damaged or cannot be removed; in all processes.
        """
        with self.processes.failing_together():
            if self.processes.rank == 0:
                for snapshot in read_snapshots(self.run_dir):
                    if snapshot.step > step:
                        snapshot.path.unlink()

    def keep(self, model: TranslationModel, step: int, bleu: float) -> None:
        """Save validated weights, and remove snapshots that no average will need; collective.

        Raises:
            UserError, OSError: the weights could not be written; in all processes.
        """
        with self.processes.failing_together():
            if self.processes.rank == 0:
                save_snapshot(model, self.run_dir, step, bleu)
                found = read_snapshots(self.run_dir)
                needed = choose(found, self.count, self.by)
                for snapshot in found:
                    if snapshot not in needed:
                        snapshot.path.unlink()

    def chosen(self) -> list[Snapshot]:
        """Return the snapshots to average, ordered by step; collective.

        Raises:
            RunError: the processes see different files.
        """
        self.processes.gather(None)  # wait until the first process has written its files
        found = choose(read_snapshots(self.run_dir), self.count, self.by)
        steps = [snapshot.step for snapshot in found]
        self.processes.require_same(steps, "snapshots", self.run_dir)
        if len(found) < 2:
            log.info("nothing to average: this run was validated %d time(s)", len(found))
        return found
