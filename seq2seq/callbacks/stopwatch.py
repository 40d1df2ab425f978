"""How long the parts of the training loop take."""

from __future__ import annotations

import re
import time
from collections import defaultdict
from dataclasses import dataclass

import torch
from lightning.pytorch.profilers import Profiler
from torch.profiler import record_function

PARTS = {  # by the names that Lightning gives to what it is about to do
    "data": r".*\.train_dataloader_next",
    "forward": r"\[Strategy\].*\.training_step",
    "backward": r"\[Strategy\].*\.backward",
    "optimiser": r"\[LightningModule\].*\.optimizer_step",
    "save": r"save_checkpoint",
}


@dataclass
class Running:
    """A part that has begun."""

    part: str
    mark: record_function
    started: float
    inner: float = 0.0  # seconds of the parts inside it


class Stopwatch(Profiler):
    """Adds up the seconds of each of `PARTS`, and marks them in a trace of torch's profiler.

    Lightning runs forward and backward inside the optimiser's step: a part is charged only for
    what is its own. A GPU works while the host goes on, so there `data` and `save` are true, and
    the others are what the host needs to hand over the work, unless `exact` is set.

    Attributes:
        seconds: of each part so far.
        exact: wait for the GPU before and after each part, which costs some speed.
    """

    def __init__(self) -> None:
        super().__init__()
        self.seconds: dict[str, float] = defaultdict(float)
        self.exact = False
        self._running: list[Running] = []
        self._parts: dict[str, str | None] = {}  # of the actions seen so far

    def start(self, action_name: str) -> None:
        part = self._part(action_name)
        if part is None:
            return
        self._wait_for_gpu(part)
        mark = record_function(part)
        mark.__enter__()  # type: ignore[no-untyped-call]
        self._running.append(Running(part, mark, time.perf_counter()))

    def stop(self, action_name: str) -> None:
        part = self._part(action_name)
        if part is None or not self._running or self._running[-1].part != part:
            return
        self._wait_for_gpu(part)
        ended = self._running.pop()
        ended.mark.__exit__(None, None, None)
        elapsed = time.perf_counter() - ended.started
        self.seconds[part] += elapsed - ended.inner
        if self._running:
            self._running[-1].inner += elapsed

    def _part(self, action: str) -> str | None:
        if action not in self._parts:
            found = (part for part, name in PARTS.items() if re.fullmatch(name, action))
            self._parts[action] = next(found, None)
        return self._parts[action]

    def _wait_for_gpu(self, part: str) -> None:
        # Saving waits for the steps that are under way, whose time is theirs.
        if (self.exact or part == "save") and torch.cuda.is_available():
            torch.cuda.synchronize()
