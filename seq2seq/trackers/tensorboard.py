"""Files for TensorBoard in `<run>/tensorboard`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from seq2seq.config import LoggerConfig
from seq2seq.trackers import Tracker


class TensorBoardTracker(Tracker):
    """What the files hold from `step` on will be made again, and is no longer shown."""

    name = "tensorboard"

    def __init__(self, run_dir: Path, settings: Mapping[str, Any], step: int):
        from lightning.fabric.loggers.tensorboard import TensorBoardLogger

        self._logger = TensorBoardLogger(
            run_dir, name="tensorboard", version=0, default_hp_metric=False, purge_step=step
        )
        self._logger.log_hyperparams(dict(settings))

    def log(self, row: Mapping[str, float], step: int) -> None:
        self._logger.log_metrics(dict(row), step)
        self._logger.save()  # else up to two minutes wait in memory


def open_tracker(
    config: LoggerConfig, run_dir: Path, settings: Mapping[str, Any], step: int
) -> Tracker:
    return TensorBoardTracker(run_dir, settings, step)
