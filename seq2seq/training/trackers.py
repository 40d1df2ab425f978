"""Where curves go: W&B (online or offline), TensorBoard, CSV; never a prompt, hang or failure."""

from __future__ import annotations

import csv
import io
import logging
import os
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from seq2seq.config import LoggerConfig
from seq2seq.disk import replace_text
from seq2seq.errors import RunError
from seq2seq.wandb_access import fault, has_key, reachable

log = logging.getLogger(__name__)

METRICS = Path("metrics/version_0/metrics.csv")
STEP = "trainer/global_step"  # what W&B's curves are drawn over
WANDB_TIMEOUT = 20  # seconds to wait for W&B before going offline
WANDB_FINISH_TIMEOUT = 600  # seconds that uploading may take at the end
WANDB_MODES = ("online", "offline", "disabled")


class Tracker(Protocol):
    """Takes rows of figures."""

    def log(self, row: Mapping[str, float], step: int) -> None:
        """Take the figures of a step, counted from 0."""

    def flush(self) -> None:
        """Bring to the disk what waits in memory."""


def make_trackers(
    config: LoggerConfig,
    run_dir: Path,
    settings: dict[str, Any],
    step: int = 0,
    validated: bool = True,
) -> list[Tracker]:
    """The chosen tracker and, unless it is `none`, `<run>/metrics/version_0/metrics.csv`.

    For the first process; the others have none.

    Args:
        config: which kind.
        run_dir: folder of the run.
        settings: the run's resolved settings as a plain dict, shown beside the curves.
        step: updates that were made when the run goes on.
        validated: whether the validation that was due then is done.
    """
    if config.kind == "none":
        return []
    trackers: list[Tracker] = [CsvTracker(run_dir / METRICS, step, validated)]
    if config.kind == "tensorboard":
        trackers.append(TensorBoardTracker(run_dir, settings, step))
    elif config.kind == "wandb":
        run = _open_wandb(config, run_dir)
        if run is not None:
            trackers.append(WandbTracker(run, settings))
    return trackers


class CsvTracker:
    """One table for the whole run: rows up to `step` are kept, later ones will be made again.

    A row is on the disk as soon as it is logged. Columns are sorted; a new one has the file
    written anew.
    """

    def __init__(self, file: Path, step: int = 0, validated: bool = True):
        self.file = file
        rows = list(whole_rows(file)) if file.exists() else []
        # Steps count from 0: what belongs to the last of `step` updates has step - 1.
        kept = [row for row in rows if int(row["step"]) < step]
        kept = [row for row in kept if "val/bleu_of_average" not in row]  # made at the very end
        if not validated:
            kept = [r for r in kept if int(r["step"]) < step - 1 or not any("val/" in k for k in r)]
        file.parent.mkdir(parents=True, exist_ok=True)
        self.columns: list[str] = []
        self._rewrite(kept)

    def log(self, row: Mapping[str, float], step: int) -> None:
        cells = {**row, "step": step}
        if not set(cells) <= set(self.columns):
            self._rewrite([*whole_rows(self.file), cells])
            return
        with self.file.open("a", encoding="utf-8", newline="") as file:
            csv.DictWriter(file, self.columns).writerow(cells)

    def _rewrite(self, rows: Sequence[Mapping[str, Any]]) -> None:
        self.columns = sorted({name for row in rows for name in row})
        text = io.StringIO(newline="")
        table = csv.DictWriter(text, self.columns)
        if rows:
            table.writeheader()
        table.writerows(rows)
        replace_text(self.file, text.getvalue())

    def flush(self) -> None:
        """Nothing waits."""


def whole_rows(file: Path) -> Iterator[dict[str, str]]:
    """The rows of the table, less those that are damaged, as by a power cut."""
    text = file.read_text(encoding="utf-8", errors="replace")
    for row in csv.DictReader(text[: text.rfind("\n") + 1].splitlines()):
        found = {name: cell for name, cell in row.items() if cell != ""}  # None: the row is short
        try:
            int(found["step"]), list(map(float, found.values()))
        except (KeyError, ValueError, TypeError):
            continue
        yield found


class TensorBoardTracker:
    """Files for TensorBoard in `<run>/tensorboard`.

    What stands there from `step` on will be made again, and is no longer shown.
    """

    def __init__(self, run_dir: Path, settings: dict[str, Any], step: int):
        from lightning.fabric.loggers.tensorboard import TensorBoardLogger

        self._logger = TensorBoardLogger(
            run_dir, name="tensorboard", version=0, default_hp_metric=False, purge_step=step
        )
        self._logger.log_hyperparams(settings)

    def log(self, row: Mapping[str, float], step: int) -> None:
        self._logger.log_metrics(dict(row), step)

    def flush(self) -> None:
        self._logger.save()


class WandbTracker:
    """W&B. What goes wrong is said once; it then gets no more curves, and the run goes on.

    Args:
        run: an open run of W&B.
        settings: shown beside its curves.
    """

    def __init__(self, run: Any, settings: dict[str, Any]):
        self.run, self.works = run, True
        self._guarded(lambda: run.config.update(settings, allow_val_change=True))

    def log(self, row: Mapping[str, float], step: int) -> None:
        self._guarded(lambda: self.run.log({**row, STEP: step}))

    def flush(self) -> None:
        """W&B's own process writes what it gets."""

    def _guarded(self, work: Callable[[], object]) -> None:
        if not self.works:
            return
        try:
            work()
        except Exception as error:  # such as a ConnectionError, when its process was killed
            self.works = False
            log.warning("W&B gets no more curves of this run, which goes on: %r", error)


def _open_wandb(config: LoggerConfig, run_dir: Path) -> Any:
    """A run of W&B; None if it cannot be had, whatever is wrong."""
    for mode in dict.fromkeys((_wandb_mode(), "offline")):
        try:
            run = _start_wandb(config, run_dir, mode)
        except Exception as error:
            log.warning("W&B (%s) did not start: %s", mode, error)
            continue
        if mode == "offline":
            log.info("W&B is offline; to upload: wandb sync %s/wandb/offline-run-*", run_dir)
        return run
    return None


def _start_wandb(config: LoggerConfig, run_dir: Path, mode: str) -> Any:
    import wandb

    id_file = run_dir / "wandb_id"
    if not id_file.exists():
        id_file.write_text(secrets.token_hex(4))
    run = wandb.init(
        project=config.project,
        group=config.group,
        name=run_dir.name,
        dir=run_dir,
        id=id_file.read_text(),
        resume="allow",  # offline too: `wandb sync` then adds to what it sent before
        reinit="finish_previous",  # of a sweep
        mode=mode,  # type: ignore[arg-type]  # one of WANDB_MODES
        settings=wandb.Settings(
            init_timeout=WANDB_TIMEOUT,
            # Without them the end of a run waits for ever for a server that has gone.
            finish_timeout=float(os.environ.get("WANDB_FINISH_TIMEOUT", WANDB_FINISH_TIMEOUT)),
            finish_timeout_raises=True,
            console="off",
            silent=True,
        ),
    )
    run.define_metric(STEP, hidden=True)
    run.define_metric("*", step_metric=STEP, step_sync=True)
    return run


def _wandb_mode() -> str:
    """WANDB_MODE, or online if a key is configured; offline where online could only fail.

    W&B itself would ask for a key on the terminal, or wait for a server that is not there.
    """
    wanted = os.environ.get("WANDB_MODE")
    if wanted and wanted not in WANDB_MODES:
        log.warning("WANDB_MODE=%s is not known (%s): ignored", wanted, ", ".join(WANDB_MODES))
        del os.environ["WANDB_MODE"]  # W&B would stumble over it again
        wanted = None
    if wanted in ("offline", "disabled"):
        return wanted
    if not has_key():
        if wanted:
            log.warning("WANDB_MODE=online, but no key is configured (WANDB_API_KEY, wandb login)")
        return "offline"
    if (why := fault()) is not None:
        log.warning("%s: ignored, and this run is logged offline", why)
        del os.environ["WANDB_BASE_URL"]  # W&B would stumble over it, offline too
        return "offline"
    if not reachable():
        log.warning("W&B cannot be reached: this run is logged offline")
        return "offline"
    return "online"


def require_tensorboard(config: LoggerConfig) -> None:
    """Raise RunError early if the TensorBoard package is missing."""
    if config.kind == "tensorboard":
        try:
            import tensorboard  # noqa: F401
        except ImportError as error:
            raise RunError(
                "logger=tensorboard needs the package tensorboard: pip install tensorboard"
            ) from error
