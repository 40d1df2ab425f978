"""TensorBoard: files in `<run>/tensorboard`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from seq2seq.config import LoggerConfig
from seq2seq.trackers import Tracker


class TensorBoardTracker(Tracker):
    """A tracker that logs curves and settings.

    TensorBoard no longer shows what older files hold from `step` on, since the run makes it again.
    """

    name = "tensorboard"

    def __init__(self, folder: Path, settings: Mapping[str, Any], step: int):
        from torch.utils.tensorboard import SummaryWriter

        self._writer = SummaryWriter(folder, purge_step=step)
        text = yaml.safe_dump(dict(settings), sort_keys=False, allow_unicode=True)
        self._writer.add_text("settings", f"```\n{text}```", step)

    def log(self, row: Mapping[str, float], step: int) -> None:
        for name, value in row.items():
            self._writer.add_scalar(name, value, step)
        self._writer.flush()  # otherwise, rows stay in memory for up to two minutes


def open_tracker(
    config: LoggerConfig, run_dir: Path, settings: Mapping[str, Any], step: int
) -> Tracker:
    return TensorBoardTracker(run_dir / "tensorboard/version_0", settings, step)
