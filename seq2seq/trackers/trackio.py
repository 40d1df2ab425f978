"""Trackio: a project on this machine, or on a server or space that a variable `TRACKIO_*` names.

No account is needed: `trackio show --project seq2seq` opens the dashboard.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Mapping
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from seq2seq.config import LoggerConfig
from seq2seq.trackers import Histogram, Media, Picture, Table, Tracker, own_id


class TrackioTracker(Tracker):
    """A tracker that logs everything but artifacts."""

    name = "trackio"

    def __init__(self, run: Any):
        self.run = run
        self.where = os.environ.get("TRACKIO_SERVER_URL") or os.environ.get("TRACKIO_SPACE_ID")

    def log(self, row: Mapping[str, float], step: int) -> None:
        self.run.log(dict(row), step=step)

    def log_media(self, what: str, make: Callable[[], Mapping[str, Media]], step: int) -> None:
        self.run.log({name: _as_trackio(media) for name, media in make().items()}, step=step)

    def finish(self, summary: Mapping[str, Any]) -> None:
        import trackio

        numbers = {f"result/{n}": v for n, v in summary.items() if isinstance(v, int | float)}
        self.run.log(numbers)
        with redirect_stdout(io.StringIO()):
            trackio.finish()  # type: ignore[no-untyped-call]  # else it prints again when the process ends


def _as_trackio(media: Media) -> Any:
    import trackio

    if isinstance(media, Table):
        rows = [[_cell(cell) for cell in row] for row in media.rows]
        return trackio.Table(columns=[*media.columns], data=rows)
    if isinstance(media, Histogram):
        return trackio.Histogram(media.values)
    if isinstance(media, list):
        return trackio.Table(columns=["picture"], data=[[_cell(picture)] for picture in media])
    return trackio.Html(media)


def _cell(value: Any) -> Any:
    import trackio

    if isinstance(value, Picture):
        return trackio.Image(value.pixels, caption=value.caption)
    return value


def open_tracker(
    config: LoggerConfig, run_dir: Path, settings: Mapping[str, Any], step: int
) -> Tracker:
    import trackio

    with redirect_stdout(io.StringIO()):  # it prints to standard output, which is for results
        run = trackio.init(
            project=config.project,
            name=f"{run_dir.name}-{own_id(run_dir, 'trackio')}",
            group=config.group,
            config=dict(settings),
            resume="allow",
            embed=False,
            auto_log_gpu=False,
            auto_log_cpu=False,
        )
    return TrackioTracker(run)
