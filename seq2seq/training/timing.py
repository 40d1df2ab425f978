"""The timer of training: measures steps and their parts, on a CPU and on a GPU.

The speeds in the curves, `trainer.profile`, `dry_run` and the training benchmark use it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch.profiler import record_function

PARTS = ("data", "forward", "backward", "optimiser")


class Times(NamedTuple):
    """The seconds that some updates took: in total, and in each of `PARTS`."""

    steps: int
    total: float
    parts: dict[str, float]


class Timer:
    """Adds up the time of training by parts, and marks the parts in a trace of torch's profiler.

    A GPU runs behind the host. So a mark on a GPU is an event in its stream, with the time at
    which the GPU reached it. Recording the event does not wait; reading the times does. So `data`
    is the time in which the GPU had no work because it had no batch.
    """

    def __init__(self, device: torch.device):
        self._cuda = device.type == "cuda"
        self.restart()

    def restart(self) -> None:
        """Start again from zero."""
        self._spans: list[tuple[str, Any, Any]] = []  # part, begin, end
        self._count, self._excluded, self._started = 0, 0.0, time.perf_counter()

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Add the time of the block to this part of a step."""
        begin = self._mark()
        with record_function(name):
            yield
        self._spans.append((name, begin, self._mark()))

    @contextmanager
    def excluded(self) -> Iterator[None]:
        """Exclude the time of the block, such as a validation or a save."""
        self._wait_for_gpu()  # the steps that it still runs are training
        begin = time.perf_counter()
        try:
            yield
        finally:
            self._wait_for_gpu()
            self._excluded += time.perf_counter() - begin

    def step_done(self) -> None:
        """Count an update."""
        self._count += 1

    def read(self) -> Times:
        """Return the times since the timer was created or restarted; wait for the GPU."""
        self._wait_for_gpu()
        total = time.perf_counter() - self._started - self._excluded
        parts = dict.fromkeys(PARTS, 0.0)
        for name, begin, end in self._spans:
            parts[name] += begin.elapsed_time(end) / 1000 if self._cuda else end - begin
        return Times(self._count, total, parts)

    def _mark(self) -> Any:
        if not self._cuda:
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record()
        return event

    def _wait_for_gpu(self) -> None:
        if self._cuda:
            torch.cuda.synchronize()
