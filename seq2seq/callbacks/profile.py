"""What a few steps spend their time on: a trace, a table of operators, a table of parts."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch.profiler import ProfilerActivity, profile

from seq2seq.callbacks import Callback
from seq2seq.data.collate import Batch
from seq2seq.training.timing import Times

if TYPE_CHECKING:
    from seq2seq.training.trainer import Trainer

log = logging.getLogger(__name__)

WARM_UP = 3  # steps that are left out: the first ones fill caches and compile
STEPS = 3  # that are traced, and as many again that are timed part by part
OPERATORS = 15  # shown in the log; the file has more


class Profile(Callback):
    """Writes `<folder>/trace.json` (for https://ui.perfetto.dev) and `operators.txt`.

    A trace slows down what it records, so the parts of a step are timed in the steps after it.

    Args:
        folder: where the files go.
    """

    def __init__(self, folder: Path):
        self.folder = folder
        self._steps = 0
        self._trace: profile | None = None
        self._before = Times()

    def on_step_end(self, trainer: Trainer, batches: Sequence[Batch]) -> None:
        if trainer.run.processes.rank != 0:
            return
        self._steps += 1
        if self._steps == WARM_UP:
            self._start(trainer.device)
        elif self._steps == WARM_UP + STEPS:
            self._write()
            self._before = trainer.timer.read()
        elif self._steps == WARM_UP + 2 * STEPS:
            self._tell_parts(trainer.timer.read() - self._before)

    def on_train_end(self, trainer: Trainer) -> None:
        if self._trace is not None:
            self._write()
        needed = WARM_UP + 2 * STEPS
        if trainer.run.processes.rank == 0 and self._steps < needed:
            log.warning(
                "trainer.profile=true needs %d steps, and training ended after %d: raise "
                "trainer.max_steps", needed, self._steps,
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
            "profile of %d steps, by each operator's own time on the %s; all: %s\n%s",
            *(STEPS, "GPU" if on_gpu else "CPU", self.folder, "\n".join(lines)),
        )

    def _tell_parts(self, times: Times) -> None:
        other = times.total - sum(times.parts.values())
        lines = [
            f"  {seconds / times.total:6.1%} {1e3 * seconds / times.steps:10.1f} ms {part}"
            for part, seconds in {**times.parts, "other": other}.items()
        ]
        log.info("where the time of a step goes, without the trace\n%s", "\n".join(lines))
