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
from seq2seq.errors import RunError
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
BEGINNING = {LOCK, "config.yaml", "train.log"}  # what a run has before it has made anything


@dataclass(frozen=True)
class Run:
    """What the parts of a run share."""

    folder: Path
    settings: dict[str, Any]  # as its checkpoints and bundles keep them
    precision: str  # in which it computes
    device: str = ""  # on which, in words
    processes: Processes = field(default_factory=Processes)  # that train together
    stop: StopRequest = field(default_factory=StopRequest)  # whether a signal came to this one


def run_folder(config: TrainConfig) -> Path:
    """The folder of a run, made if the run is new.

    Raises:
        RunError: it holds something already.
    """
    if config.dry_run:
        return Path(os.devnull)  # where nothing is found and nothing can be written
    if config.resume is not None:
        return Path(config.resume)
    name = f"{config.data.name}-{config.model.name}"
    if config.run_dir is None and config.trainer.devices * config.trainer.num_nodes > 1:
        raise RunError(
            f"several processes must agree on one folder: give it, for example run_dir=runs/{name}"
        )
    run_dir = Path(config.run_dir or f"runs/{name}-{datetime.now():%Y%m%d-%H%M%S}")
    if process_rank() == 0:  # which makes it for all
        _require_new(run_dir)
        run_dir.mkdir(parents=True, exist_ok=True)
    return run_dir


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
def opened(run_dir: Path, config: TrainConfig) -> Iterator[None]:
    """Train in a folder: no other process can, and what the project logs goes to its `train.log`.

    A new run writes its settings before all else, since a run that has them can go on. If it fails
    before it has made anything, its folder goes.

    Raises:
        RunError: another process trains there, or the folder of a new run holds something already.
    """
    new = config.resume is None
    with locked(run_dir):
        if new:
            _require_new(run_dir)
            write_settings(config, run_dir)
        try:
            with LogFile(run_dir / "train.log"):
                yield
        except BaseException:
            if new and {path.name for path in run_dir.iterdir()} <= BEGINNING:
                shutil.rmtree(run_dir)
            raise


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
