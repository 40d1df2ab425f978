"""Where the figures of a run go: one page for each kind of tracker, on one interface.

Start with `Tracker`. A new kind is a module here whose `open_tracker` gives one, and its name in
`LoggerConfig`.
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


class Artifact(NamedTuple):
    """What a run takes or makes, so that a score can be followed back to its data.

    Attributes:
        name: by which one run uses what another one made.
        facts: figures, and no text of a corpus.
        folder: its files; None = the facts alone.
    """

    name: str
    facts: Mapping[str, Any]
    folder: Path | None = None


class Tracker:
    """Takes what it can show of a run, and leaves out the rest. Steps count from 0.

    Attributes:
        name: in messages.
        where: the address that it sends everything to; None = nothing leaves this machine.
    """

    name = "the tracker"
    where: str | None = None

    def log(self, row: Mapping[str, float], step: int) -> None:
        """Take the figures of a step, so that a run which is killed later has them."""

    def log_media(self, what: str, make: Callable[[], Mapping[str, Media]], step: int) -> None:
        """Take what `make` gives; a tracker that shows no such things does not call it.

        Args:
            what: a key of `CONTENTS`.
            make: takes time; gives what is shown, by name.
            step: that it belongs to.
        """

    def log_artifact(self, kind: str, make: Callable[[], Artifact], used: bool = False) -> None:
        """Take what the run made, or what it used; `kind` is a key of `FOLDERS`."""

    def finish(self, summary: Mapping[str, Any]) -> None:
        """Take how the run ended: `<run>/summary.json`."""


# What media are given to trackers, and the `logger.share` that lets them leave this machine.
CONTENTS = {
    "parameters": "curves",
    "histograms": "curves",
    "findings": "curves",
    "the report of the data": "text",
    "sentences and pictures": "text",
}
FOLDERS = {"dataset": "text", "evaluation": "text", "model": "all"}  # likewise of artifacts
SHARES = {  # what each value of `logger.share` lets leave, in words
    "curves": "curves, settings and the command",
    "text": "curves, settings, the command, sentences and the report of the data",
    "all": "curves, settings, the command, sentences, the report of the data and the model",
}


class Guarded(Tracker):
    """Passes on to a tracker of another program what may leave this machine, and outlives it.

    Each table, picture and page that is kept back has a note in its place, which says so. Whatever
    is wrong with the tracker is said once for each part, and training goes on.

    Args:
        inner: the tracker.
        share: as `logger.share`.
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
    """What stands in the panels of text that stays here."""
    note = "Kept on the machine of the run: logger.share=text fills this panel."
    panels = [panel for section in SECTIONS.values() for panel in section if panel.text]
    return {
        key: Table(["note"], [[note]]) if panel.kind == "table" else f"<p>{note}</p>"
        for panel in panels
        for key in panel.keys
    }


def make_trackers(
    config: LoggerConfig,
    run_dir: Path,
    settings: Mapping[str, Any],
    step: int = 0,
    validated: bool = True,
) -> list[Tracker]:
    """`<run>/metrics/version_0/metrics.csv`, and the chosen tracker beside it.

    For the first process; the others have none.

    Args:
        config: which kind, and what may leave this machine.
        run_dir: folder of the run.
        settings: and other facts of the run as a plain dict, shown beside its curves.
        step: updates that were made when the run goes on.
        validated: whether the validation that was due then is done.
    """
    from seq2seq.trackers.csv import METRICS, CsvTracker

    chosen = open_chosen(config, run_dir, settings, step)
    return [CsvTracker(run_dir / METRICS, step, validated), *([chosen] if chosen else [])]


def open_chosen(
    config: LoggerConfig, run_dir: Path, settings: Mapping[str, Any], step: int = 0
) -> Tracker | None:
    """The tracker that `logger.kind` names; None if there is none, or it does not start."""
    if config.kind in ("csv", "none"):
        return None
    module = import_module(f"seq2seq.trackers.{config.kind}")
    try:
        tracker: Tracker | None = module.open_tracker(config, run_dir, settings, step)
    except Exception as error:  # of another program: the run is worth more
        log.warning("logger=%s did not start, there are files only: %r", config.kind, error)
        return None
    if tracker is None:
        return None
    log.info("shared      %s", shared(tracker, config.share))
    return Guarded(tracker, config.share)


def shared(tracker: Tracker, share: str) -> str:
    """What leaves this machine, in words."""
    if tracker.where is None:
        return f"nothing leaves this machine (logger={tracker.name}, here)"
    return f"{SHARES[share]} go to {tracker.where} (logger.share={share})"


def require_package(config: LoggerConfig) -> None:
    """Raise RunError early if the package of a tracker is missing.

    W&B is not among them: a run does without it, since it is the default.
    """
    if config.kind in ("tensorboard", "trackio", "mlflow") and find_spec(config.kind) is None:
        raise RunError(
            f"logger={config.kind} needs a package that is not there: {install(config.kind)}"
        )


def own_id(run_dir: Path, kind: str) -> str:
    """By which a tracker knows a run that goes on; the same each time."""
    file = run_dir / f"{kind}_id"
    if not file.exists():
        replace_text(file, secrets.token_hex(4))
    return file.read_text()
