"""A trace of a few training steps by torch's profiler: where the time goes."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

from torch.profiler import profile, schedule

from seq2seq.data.collate import Batch
from seq2seq.training.callbacks import Callback
from seq2seq.training.trainer import Trainer

log = logging.getLogger(__name__)

STEPS = schedule(wait=2, warmup=1, active=3, repeat=1)  # the first ones fill caches and compile


class Profile(Callback):
    """Writes `<folder>/trace.json` of steps 4 to 6, for https://ui.perfetto.dev."""

    def __init__(self, folder: Path):
        self.folder = folder
        self._trace = profile(schedule=STEPS, on_trace_ready=self._write)

    def on_train_start(self, trainer: Trainer) -> None:
        self._trace.start()

    def on_step_end(self, trainer: Trainer, batches: Sequence[Batch]) -> None:
        self._trace.step()

    def on_train_end(self, trainer: Trainer) -> None:
        self._trace.stop()  # a short run writes the steps that it made

    def _write(self, trace: profile) -> None:
        self.folder.mkdir(exist_ok=True)
        trace.export_chrome_trace(str(self.folder / "trace.json"))
        log.info("profile     %s", self.folder / "trace.json")
