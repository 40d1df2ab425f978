"""Averages of weights: a moving one (EMA) over steps, and one of validated weights at the end."""

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
    """An exponential moving average of the weights: what is validated and shipped.

    After update number t (from 0) of the weights w, shadow = d * shadow + (1 - d) * w, where
    d = min(decay, (1 + t) / (10 + t)) lets the average forget the random start soon (the rule of
    TensorFlow's ExponentialMovingAverage). Processes hold equal weights, so they hold equal
    shadows. A step that was skipped does not count.

    Args:
        decay: of the average; its memory is 1 / (1 - decay) steps.
    """

    def __init__(self, model: nn.Module, decay: float):
        self.decay, self.weights = decay, dict(model.named_parameters())  # tied ones once
        device = next(iter(self.weights.values())).device
        self.updates = torch.zeros((), dtype=torch.float64, device=device)
        # In 32 bits.
        self.shadow = {
            name: weight.detach().to(torch.float32, copy=True)
            for name, weight in self.weights.items()
        }

    @torch.no_grad()
    def update(self, skipped: Tensor | bool = False) -> None:
        """Follow the weights after a step.

        Args:
            skipped: () whether the step was left out, on the device; nothing waits for it.
        """
        decay = ((1 + self.updates) / (10 + self.updates)).clamp(max=self.decay)
        made = ~torch.as_tensor(skipped, device=self.updates.device)
        amount = torch.where(made, 1 - decay, 0.0).float()
        for shadow, weight in zip(self.shadow.values(), self.weights.values(), strict=True):
            shadow.lerp_(weight.float(), amount)
        self.updates += made

    @contextmanager
    @torch.no_grad()
    def lent(self) -> Iterator[None]:
        """Inside, the model has the averaged weights."""
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
    """Weights of validations in `<run>/snapshots`, as many as the average at the end can need.

    A snapshot holds what was validated: the moving average, if there is one.

    Args:
        count: snapshots in the average.
        by: `last`, or `best` by validation BLEU.
    """

    def __init__(self, run_dir: Path, processes: Processes, count: int, by: str):
        self.run_dir, self.processes, self.count, self.by = run_dir, processes, count, by

    def forget_after(self, step: int) -> None:
        """Remove those made after the state that a run goes on from; collective.

        Raises:
            UserError, OSError: one is damaged, or cannot be removed; in all processes.
        """
        with self.processes.failing_together():
            if self.processes.rank == 0:
                for snapshot in read_snapshots(self.run_dir):
                    if snapshot.step > step:
                        snapshot.path.unlink()

    def keep(self, model: TranslationModel, step: int, bleu: float) -> None:
        """Save validated weights, and remove those that no average will need; collective.

        Raises:
            UserError, OSError: they could not be written; in all processes.
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
        """The snapshots of the average, by step; collective.

        Raises:
            RunError: the processes see different files.
        """
        self.processes.gather(None)  # the files of the first process are whole
        found = choose(read_snapshots(self.run_dir), self.count, self.by)
        steps = [snapshot.step for snapshot in found]
        self.processes.require_same(steps, "snapshots", self.run_dir)
        if len(found) < 2:
            log.info("nothing to average: this run was validated %d time(s)", len(found))
        return found
