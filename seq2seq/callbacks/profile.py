"""What a few steps spend their time on: a trace, a table of operators, a table of parts."""

from __future__ import annotations

import logging
import time
from pathlib import Path
from typing import Any

import lightning as L
import torch
from torch.profiler import ProfilerActivity, profile

from seq2seq.callbacks.stopwatch import Stopwatch

log = logging.getLogger(__name__)

WARM_UP = 3  # batches that are left out: the first ones fill caches and compile
BATCHES = 3  # that are traced, and as many again that are timed part by part
OPERATORS = 15  # shown in the log; the file has more


class Profile(L.Callback):
    """Writes `<folder>/trace.json` (for https://ui.perfetto.dev) and `operators.txt`.

    A trace slows down what it records, so the parts of a step are timed in the batches after it.

    Args:
        folder: where the files go.
        stopwatch: the trainer's profiler, whose parts are also marked in the trace.
    """

    def __init__(self, folder: Path, stopwatch: Stopwatch):
        self.folder, self.stopwatch = folder, stopwatch
        self._batches = 0
        self._trace: profile | None = None

    def on_train_batch_end(
        self, trainer: L.Trainer, pl_module: L.LightningModule, *batch: Any
    ) -> None:
        if not trainer.is_global_zero:
            return
        self._batches += 1
        if self._batches == WARM_UP:
            self._start(pl_module.device)
        elif self._batches == WARM_UP + BATCHES:
            self._write()
            self.stopwatch.exact = True
            self._before = dict(self.stopwatch.seconds), time.perf_counter()
        elif self._batches == WARM_UP + 2 * BATCHES:
            self.stopwatch.exact = False
            self._tell_parts()

    def on_train_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        if self._trace is not None:
            self._write()
        needed = WARM_UP + 2 * BATCHES
        if trainer.is_global_zero and self._batches < needed:
            log.warning(
                "trainer.profile=true needs %d batches, and training ended after %d: raise "
                "trainer.max_steps", needed, self._batches,
            )

    def _start(self, device: torch.device) -> None:
        activities = [ProfilerActivity.CPU]
        if device.type == "cuda":
            activities.append(ProfilerActivity.CUDA)
        self._trace = profile(activities=activities)
        self._trace.start()

    def _write(self) -> None:
        assert self._trace is not None
        trace, self._trace = self._trace, None
        trace.stop()
        self.folder.mkdir(exist_ok=True)
        trace.export_chrome_trace(str(self.folder / "trace.json"))
        averages = trace.key_averages()
        on_gpu = any(event.self_device_time_total for event in averages)
        key = f"self_{'device' if on_gpu else 'cpu'}_time_total"
        text = averages.table(sort_by=key, row_limit=100, max_name_column_width=60)
        (self.folder / "operators.txt").write_text(text, encoding="utf-8")
        times = {event.key: getattr(event, key) for event in averages}
        total = sum(times.values()) or 1.0
        top = sorted(averages, key=lambda event: -times[event.key])[:OPERATORS]
        lines = [
            f"  {times[event.key] / total:6.1%} {times[event.key] / 1e3:10.1f} ms "
            f"{event.count:7,} x {event.key}"
            for event in top
        ]
        log.info(
            "profile of %d batches, by each operator's own time on the %s; all: %s\n%s",
            *(BATCHES, "GPU" if on_gpu else "CPU", self.folder, "\n".join(lines)),
        )

    def _tell_parts(self) -> None:
        before, since = self._before
        total = time.perf_counter() - since
        now = self.stopwatch.seconds
        parts = {part: now[part] - before.get(part, 0.0) for part in list(now)}
        parts["other"] = total - sum(parts.values())
        lines = [
            f"  {seconds / total:6.1%} {1e3 * seconds / BATCHES:10.1f} ms {part}"
            for part, seconds in parts.items()
        ]
        log.info("where the time of a batch goes, without the trace\n%s", "\n".join(lines))
