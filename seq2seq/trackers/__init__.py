"""Where the figures of a run go: one page for each kind of tracker, on one interface.

Start with `Tracker`. A new kind is a class here, a name in `make_trackers` and in `LoggerConfig`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from seq2seq.config import LoggerConfig

if TYPE_CHECKING:
    import numpy as np


class Picture(NamedTuple):
    """Pixels (height, width, 3) from 0 to 255, and what is written below them."""

    pixels: np.ndarray
    caption: str


class Table(NamedTuple):
    """Rows of texts, numbers and pictures; None = an empty cell."""

    columns: list[str]
    rows: list[list[Any]]


class Histogram(NamedTuple):
    """Finite numbers, at least one."""

    values: list[float]


Media = Table | Histogram | list[Picture] | str  # a text is a page of HTML, whole in itself


class Tracker:
    """Takes what it can show of a run, and leaves out the rest. Steps count from 0."""

    def log(self, row: Mapping[str, float], step: int) -> None:
        """Take the figures of a step, so that a run which is killed later has them."""

    def log_media(self, what: str, make: Callable[[], Mapping[str, Media]], step: int) -> None:
        """Take what `make` gives; a tracker that shows no such things does not call it.

        Args:
            what: it is, in words, for messages.
            make: takes time; gives what is shown, by name.
            step: that it belongs to.
        """

    def finish(self, summary: Mapping[str, Any], bundle: Path | None) -> None:
        """Take how the run ended.

        Args:
            summary: as in `<run>/summary.json`.
            bundle: the folder to be kept with the run; None = it is not wanted.
        """


def make_trackers(
    config: LoggerConfig,
    run_dir: Path,
    settings: Mapping[str, Any],
    step: int = 0,
    validated: bool = True,
) -> list[Tracker]:
    """The chosen tracker and, unless it is `none`, `<run>/metrics/version_0/metrics.csv`.

    For the first process; the others have none.

    Args:
        config: which kind.
        run_dir: folder of the run.
        settings: and other facts of the run as a plain dict, shown beside its curves.
        step: updates that were made when the run goes on.
        validated: whether the validation that was due then is done.
    """
    from seq2seq.trackers.csv import METRICS, CsvTracker

    if config.kind == "none":
        return []
    trackers: list[Tracker] = [CsvTracker(run_dir / METRICS, step, validated)]
    if config.kind == "tensorboard":
        from seq2seq.trackers.tensorboard import TensorBoardTracker

        trackers.append(TensorBoardTracker(run_dir, settings, step))
    elif config.kind == "wandb":
        from seq2seq.trackers.wandb import WandbTracker, open_run

        run = open_run(config, run_dir)
        if run is not None:
            trackers.append(WandbTracker(run, run_dir, settings))
    return trackers
