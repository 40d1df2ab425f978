"""The folder of a training run: made, written to, and judged when the run goes on.

<run>/config.yaml      resolved settings
<run>/tokenizer.json   vocabulary
<run>/origin.json      command, code revision, versions, device of each start (provenance.py)
<run>/data_report.json what preparing the data did (data/report.py)
<run>/checkpoints/     states to resume from
<run>/snapshots/       weights to average, if asked for
<run>/bundle/          the best model by validation BLEU
<run>/samples.jsonl    translations of each validation (callbacks/samples.py)
<run>/metrics/         curves as CSV; W&B or TensorBoard files beside it
<run>/profile/         where the time goes, if asked for
<run>/train.log        what was printed
<run>/summary.json     the run is finished
<run>/report.html      all of it to look at (seq2seq/report/), written last
"""

from __future__ import annotations

import errno
import logging
import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import yaml

from seq2seq.config import TrainConfig, TrainerConfig
from seq2seq.errors import RunError, command_line
from seq2seq.files import alone, remove_leftovers, replace_text
from seq2seq.trackers.csv import METRICS
from seq2seq.training.checkpointing import Checkpoint, remove_stray_shards
from seq2seq.training.distributed import Processes, process_rank
from seq2seq.training.stopping import StopRequest

log = logging.getLogger(__name__)

LOCK = ".lock"
RESULTS = ("checkpoints/*.ckpt", "bundle", "summary.json")  # what a new run must not overwrite
# With an older filelock, data workers of a killed process hold its lock until they miss it: 5 s.
LOCK_SECONDS = 10
DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO, errno.EACCES)


@dataclass(frozen=True)
class Run:
    """What the parts of a run share.

    Attributes:
        folder: of the run.
        settings: as its checkpoints and bundles keep them.
        precision: in which it computes.
        processes: that train together.
        stop: whether a signal came to this one.
    """

    folder: Path
    settings: dict[str, Any]
    precision: str
    processes: Processes = field(default_factory=Processes)
    stop: StopRequest = field(default_factory=StopRequest)


def open_run(config: TrainConfig) -> Path:
    """The run's folder, made.

    Raises:
        RunError: it holds something already, or cannot be written.
    """
    if config.dry_run:
        return Path(os.devnull)  # where nothing is found and nothing can be written
    if config.resume is not None:
        return Path(config.resume)
    if config.run_dir is None:
        if config.trainer.devices * config.trainer.num_nodes > 1:
            raise RunError(
                "several processes must agree on one folder: give it, for example "
                f"run_dir=runs/{config.data.name}-{config.model.name}"
            )
        stamp = datetime.now().strftime("%Y%m%d-%H%M%S")
        run_dir = Path("runs") / f"{config.data.name}-{config.model.name}-{stamp}"
    else:
        run_dir = Path(config.run_dir)
        if process_rank() != 0:
            return run_dir  # the first process makes it
        _require_new(run_dir)
    with _plain_folder_errors(run_dir):
        run_dir.mkdir(parents=True, exist_ok=True)
    return run_dir


def begin_run(config: TrainConfig, run_dir: Path) -> None:
    """Write the settings of a new run before all else, since a run that has them can go on.

    The folder must be locked: a process that trains there has its settings in it.

    Raises:
        RunError: it holds something already, or cannot be written.
    """
    _require_new(run_dir)
    with _plain_folder_errors(run_dir):
        write_settings(config, run_dir)


def _require_new(run_dir: Path) -> None:
    """Raise RunError unless a folder is empty, or of a run that was killed before it saved.

    Such a run has a lock and no results: the same command begins anew in its folder.
    """
    kept = RESULTS if (run_dir / LOCK).exists() else ("*",)
    if any(path for pattern in kept for path in run_dir.glob(pattern)):
        state = "a finished run" if (run_dir / "summary.json").exists() else "files"
        raise RunError(
            f"run_dir={run_dir} already holds {state}, which training would overwrite: "
            f"choose another folder, or go on with the run in it: resume={run_dir}"
        )


@contextmanager
def _plain_folder_errors(run_dir: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise RunError(
            f"cannot write to the run's folder {run_dir}: {error}. Choose another: run_dir=FOLDER"
        ) from error


def write_settings(config: TrainConfig, run_dir: Path) -> None:
    """Write `<run>/config.yaml`, whole or not at all."""
    text = yaml.safe_dump(asdict(config) | {"resume": None}, sort_keys=False, allow_unicode=True)
    replace_text(run_dir / "config.yaml", text)


def plain_settings(config: TrainConfig) -> dict[str, Any]:
    """The settings as a dict, without folders of this machine, which say nothing elsewhere."""
    settings = asdict(config)
    settings["run_dir"] = settings["resume"] = settings["data"]["cache"] = None
    for corpus in (settings["data"], *settings["data"]["members"].values()):
        corpus["path"] = None
    return settings


@contextmanager
def locked(run_dir: Path) -> Iterator[None]:
    """Keep others from training in the folder at the same time; a killed process lets go.

    Removes the half-written files of killed processes.

    Raises:
        RunError: another process trains there.
    """

    def waiting() -> None:
        log.info("waiting     %s is in use: up to %d s", run_dir, LOCK_SECONDS)

    with ExitStack() as held:
        try:
            held.enter_context(alone(run_dir / LOCK, waiting, LOCK_SECONDS))
        except TimeoutError:
            raise RunError(
                f"another process trains in {run_dir} now: two would overwrite each other's "
                "checkpoints. Wait until it ends, or stop it; then give the same command again"
            ) from None
        for part in (".", "checkpoints", "snapshots", METRICS.parent):
            remove_leftovers(run_dir / part)
        remove_stray_shards(run_dir)
        yield


@contextmanager
def forget_empty_run(run_dir: Path, new: bool) -> Iterator[None]:
    """If what runs inside fails, leave no new run behind: nothing was made yet but its settings.

    What else is in the folder, of an earlier start or of the user, stays there.
    """
    try:
        yield
    except BaseException:
        if new:
            for name in ("config.yaml", "train.log"):
                (run_dir / name).unlink(missing_ok=True)
            if {path.name for path in run_dir.iterdir()} <= {LOCK}:
                shutil.rmtree(run_dir)
        raise


def require_unfinished(run_dir: Path, checkpoint: Checkpoint, trainer: TrainerConfig) -> None:
    """Raise RunError if the run to resume has made all its steps, or stopped early."""
    if not checkpoint.content["validated"] or not (run_dir / "summary.json").exists():
        return  # what comes after the last step is still to be done
    step, patience = checkpoint.content["step"], trainer.patience
    if step >= trainer.max_steps:
        raise RunError(
            f"the run {run_dir} is finished: it has made all {step} steps. To train it longer: "
            f"resume={run_dir} trainer.max_steps={2 * step}"
        )
    worse = checkpoint.content["callbacks"]["Validation"]["worse"]
    if patience is not None and worse >= patience:
        raise RunError(
            f"the run {run_dir} stopped early after step {step}: {worse} validations brought no "
            f"better BLEU. To train it on: resume={run_dir} trainer.patience={worse + patience} "
            "(or null: never stop early)"
        )


@contextmanager
def plain_disk_errors(run_dir: Path) -> Iterator[None]:
    """A full or broken disk, wherever it is met, becomes a message that says how to go on."""
    try:
        yield
    except OSError as error:
        if error.errno not in DISK_ERRORS:
            raise
        raise RunError(
            f"{error.filename or run_dir}: {error.strerror}. Make room or mend the folder, then go "
            f"on from the last checkpoint: {command_line('train', f'resume={run_dir}')}"
        ) from error


class LogFile(logging.FileHandler):
    """While open, what the project logs also goes to a file."""

    def __init__(self, path: Path):
        super().__init__(path, encoding="utf-8", delay=True)
        self.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))

    def __enter__(self) -> None:
        logging.getLogger("seq2seq").addHandler(self)

    def __exit__(self, *exception: object) -> None:
        logging.getLogger("seq2seq").removeHandler(self)
        self.close()
