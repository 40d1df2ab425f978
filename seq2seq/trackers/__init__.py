"""Trackers show the curves and other figures of a run: a module for each kind, one interface.

Start with `Tracker`. To add a kind, write a module here whose `open_tracker` returns a tracker, and
add the module's name to `LoggerConfig`.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from seq2seq.config import LoggerConfig
from seq2seq.dashboard import SECTIONS
from seq2seq.errors import RunError, install
from seq2seq.files import replace_text

if TYPE_CHECKING:
    import numpy as np

log = logging.getLogger(__name__)


class Picture(NamedTuple):
    """Pixels (height, width, 3) from 0 to 255, and the caption below them."""

    pixels: np.ndarray
    caption: str


class Table(NamedTuple):
    """Rows of texts, numbers and pictures; None = an empty cell."""

    columns: list[str]
    rows: list[list[Any]]


class Histogram(NamedTuple):
    """Finite numbers, at least one."""

    values: list[float]


Media = Table | Histogram | list[Picture] | str  # a str is a self-contained page of HTML


class Artifact(NamedTuple):
    """An input or output of a run, so that a score can be traced back to its data."""

    name: str  # equal names are the same artifact, so one run can use what another made
    facts: Mapping[str, Any]  # figures, without text of a corpus
    folder: Path | None = None  # folder of its files; None = the artifact has only facts


class Tracker:
    """The interface of a tracker, which shows what it can of a run and ignores the rest.

    Steps count from 0.
    """

    name = "the tracker"  # in messages
    where: str | None = None  # the address that gets all; None = nothing leaves this machine

    def log(self, row: Mapping[str, float], step: int) -> None:
        """Store the figures of a step at once, so that they are kept if the run is killed."""

    def log_media(self, what: str, make: Callable[[], Mapping[str, Media]], step: int) -> None:
        """Show the media that `make` returns by name; `what` is a key of `CONTENTS`.

        `make` may be slow: a tracker that cannot show media does not call it.
        """

    def log_artifact(self, kind: str, make: Callable[[], Artifact], used: bool = False) -> None:
        """Store an artifact that the run made, or, if `used`, one that it used.

        `kind` is a key of `FOLDERS`.
        """

    def finish(self, summary: Mapping[str, Any]) -> None:
        """Store the summary of the run (`<run>/summary.json`), and close the tracker."""


# Kinds of media, and the lowest `logger.share` that lets each leave this machine.
CONTENTS = {
    "parameters": "curves",
    "histograms": "curves",
    "findings": "curves",
    "the report of the data": "text",
    "sentences and pictures": "text",
}
FOLDERS = {"dataset": "text", "evaluation": "text", "model": "all"}  # likewise for artifacts' files
SHARES = {  # what each value of `logger.share` lets leave this machine, in words
    "curves": "curves, settings and the command",
    "text": "curves, settings, the command, sentences and the report of the data",
    "all": "curves, settings, the command, sentences, the report of the data and the model",
}


class Guarded(Tracker):
    """A wrapper that gives a tracker only what may leave this machine, and survives its errors.

    A note takes the place of each table, picture and page that `share` does not let leave. If a
    kind of logging fails, a warning says so once for that kind, and training continues.
    """

    def __init__(self, inner: Tracker, share: str):
        self.inner = inner
        self.share = share if inner.where else "all"
        self._noted = False
        self._warned: set[str] = set()

    def log(self, row: Mapping[str, float], step: int) -> None:
        self._attempt("curves", lambda: self.inner.log(row, step))

    def log_media(self, what: str, make: Callable[[], Mapping[str, Media]], step: int) -> None:
        if self.share == "curves" and CONTENTS[what] == "text":
            if self._noted:
                return
            self._noted, make = True, _notes
        self._attempt(what, lambda: self.inner.log_media(what, make, step))

    def log_artifact(self, kind: str, make: Callable[[], Artifact], used: bool = False) -> None:
        leaves = self.share in ("all", FOLDERS[kind])
        facts = make if leaves else lambda: make()._replace(folder=None)
        self._attempt(f"files of the {kind}", lambda: self.inner.log_artifact(kind, facts, used))

    def finish(self, summary: Mapping[str, Any]) -> None:
        self._attempt("results", lambda: self.inner.finish(summary))

    def _attempt(self, what: str, work: Callable[[], object]) -> None:
        try:
            work()
        except Exception as error:
            if what not in self._warned:
                log.warning("%s did not get all %s: %r (said once)", self.inner.name, what, error)
            self._warned.add(what)


def _notes() -> dict[str, Media]:
    """Make the notes for the panels whose text may not leave this machine."""
    note = "Kept on the machine of the run: logger.share=text fills this panel."
    return {
        key: Table(["note"], [[note]]) if panel.kind == "table" else f"<p>{note}</p>"
        for section in SECTIONS.values()
        for panel in section
        if panel.text
        for key in panel.keys
    }


def make_trackers(
    config: LoggerConfig,
    run_dir: Path,
    settings: Mapping[str, Any],
    step: int = 0,
    validated: bool = True,
) -> list[Tracker]:
    """Open the trackers of a run: `<run>/metrics/version_0/metrics.csv`, and the chosen one.

    Only the first process calls this; other processes have no trackers.

    Args:
        config: the kind of tracker, and what may leave this machine.
        run_dir: folder of the run.
        settings: settings and other facts of the run, shown beside its curves.
        step: number of updates before this start; 0 unless the run is resumed.
        validated: whether the validation that was due after `step` updates is done.
    """
    from seq2seq.trackers.csv import METRICS, CsvTracker

    chosen = open_chosen(config, run_dir, settings, step)
    return [CsvTracker(run_dir / METRICS, step, validated), *([chosen] if chosen else [])]


def open_chosen(
    config: LoggerConfig, run_dir: Path, settings: Mapping[str, Any], step: int = 0
) -> Tracker | None:
    """Open the tracker that `logger.kind` names; None for csv or none, or if it does not start."""
    if config.kind in ("csv", "none"):
        return None
    module = import_module(f"seq2seq.trackers.{config.kind}")
    try:
        tracker: Tracker | None = module.open_tracker(config, run_dir, settings, step)
    except Exception as error:  # a tracker's error must not end the run
        log.warning("logger=%s did not start, there are files only: %r", config.kind, error)
        return None
    if tracker is not None:
        log.info("shared      %s", shared(tracker, config.share))
        tracker = Guarded(tracker, config.share)
    return tracker


def shared(tracker: Tracker, share: str) -> str:
    """Say in words what leaves this machine, and where it goes."""
    if tracker.where is None:
        return f"nothing leaves this machine (logger={tracker.name}, here)"
    return f"{SHARES[share]} go to {tracker.where} (logger.share={share})"


def require_package(config: LoggerConfig) -> None:
    """Raise RunError early if the package of a tracker is missing.

    W&B is not checked: it is the default, so a run continues without it.
    """
    if config.kind in ("tensorboard", "trackio", "mlflow") and find_spec(config.kind) is None:
        raise RunError(
            f"logger={config.kind} needs a package that is not there: {install(config.kind)}"
        )


def own_id(run_dir: Path, kind: str) -> str:
    """Return the id by which a tracker recognises a resumed run; make it at the first call."""
    file = run_dir / f"{kind}_id"
    if not file.exists():
        replace_text(file, secrets.token_hex(4))
    return file.read_text()
