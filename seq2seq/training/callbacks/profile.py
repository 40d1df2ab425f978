"""What a few steps spend their time on: a trace, a table of operators, a table of parts."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from torch.profiler import profile, schedule

from seq2seq.data.collate import Batch
from seq2seq.training.callbacks import Callback
from seq2seq.training.timing import Times

if TYPE_CHECKING:
    from seq2seq.training.trainer import Trainer

log = logging.getLogger(__name__)

WARM_UP = 3  # steps that are left out: the first ones fill caches and compile
STEPS = 3  # that are traced, and as many again that are timed part by part
NEEDED = WARM_UP + 2 * STEPS


class Profile(Callback):
    """Writes `<folder>/trace.json` (for https://ui.perfetto.dev) and `operators.txt`, with the
    operators sorted by their own time; logs the parts of a step.

    A trace slows down what it records, so the parts of a step are timed in the steps after it.

    Args:
        folder: where the files go.
    """

    def __init__(self, folder: Path):
        self.folder = folder
        self._trace = profile(
            schedule=schedule(wait=WARM_UP - 1, warmup=1, active=STEPS, repeat=1),
            on_trace_ready=self._write,
        )
        self._before = Times()

    def on_train_start(self, trainer: Trainer) -> None:
        if trainer.run.processes.rank == 0:
            self._trace.start()

    def on_step_end(self, trainer: Trainer, batches: Sequence[Batch]) -> None:
        if trainer.run.processes.rank != 0:
            return
        self._trace.step()
        if self._trace.step_num == WARM_UP + STEPS:
            self._before = trainer.timer.read()
        elif self._trace.step_num == NEEDED:
            self._tell_parts(trainer.timer.read() - self._before)

    def on_train_end(self, trainer: Trainer) -> None:
        if trainer.run.processes.rank != 0:
            return
        self._trace.stop()  # writes what it has
        if self._trace.step_num < NEEDED:
            log.warning(
                "trainer.profile=true needs %d steps, and training ended after %d: raise "
                "trainer.max_steps", NEEDED, self._trace.step_num,
            )

    def _write(self, trace: profile) -> None:
        self.folder.mkdir(exist_ok=True)
        trace.export_chrome_trace(str(self.folder / "trace.json"))
        averages = trace.key_averages()
        on_gpu = any(event.self_device_time_total for event in averages)
        key = f"self_{'device' if on_gpu else 'cpu'}_time_total"
        text = averages.table(sort_by=key, row_limit=100, max_name_column_width=60)
        (self.folder / "operators.txt").write_text(text, encoding="utf-8")
        log.info("profile of %d steps: trace.json and operators.txt in %s", STEPS, self.folder)

    def _tell_parts(self, times: Times) -> None:
        other = times.total - sum(times.parts.values())
        lines = [
            f"  {seconds / times.total:6.1%} {1e3 * seconds / times.steps:10.1f} ms {part}"
            for part, seconds in {**times.parts, "other": other}.items()
        ]
        log.info("where the time of a step goes, without the trace\n%s", "\n".join(lines))
