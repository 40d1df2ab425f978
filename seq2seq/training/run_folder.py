"""The folder of a training run: creates it, locks it, and checks whether its run can resume.

<run>/config.yaml      resolved settings
<run>/tokenizer.json   vocabulary
<run>/origin.json      command, code revision, versions, device of each start (provenance.py)
<run>/data_report.json what preparing the data did (data/report.py)
<run>/checkpoints/     states to resume from
<run>/snapshots/       weights to average, if asked for
<run>/bundle/          the best model by validation BLEU
<run>/samples.jsonl    translations of each validation (callbacks/samples.py)
<run>/metrics/         curves as CSV; W&B or TensorBoard files beside it
<run>/profile/         trace of a few steps, if asked for
<run>/train.log        log messages
<run>/summary.json     results; exists only if the run is finished
<run>/report.html      report of the run (seq2seq/report/), written last
"""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import yaml

from seq2seq.config import TrainConfig, TrainerConfig
from seq2seq.errors import RunError
from seq2seq.files import lock, remove_leftovers, replace_text
from seq2seq.trackers.csv import METRICS
from seq2seq.training.checkpointing import Checkpoint, remove_stray_shards
from seq2seq.training.distributed import Processes, process_rank
from seq2seq.training.stopping import StopRequest

LOCK = ".lock"
RESULT_PATTERNS = ("checkpoints/*.ckpt", "bundle", "summary.json")  # a new run keeps off these
FILES_WITHOUT_RESULTS = {LOCK, "config.yaml", "train.log"}  # of a run that has no results yet


@dataclass(frozen=True)
class Run:
    """Facts and objects that the parts of a run share."""

    folder: Path
    settings: dict[str, Any]  # as checkpoints and bundles store them
    precision: str  # of the arithmetic
    device: str = ""  # described in words
    processes: Processes = field(default_factory=Processes)  # that train together
    stop: StopRequest = field(default_factory=StopRequest)  # whether this process got a signal


def run_folder(config: TrainConfig) -> Path:
    """Return the folder of a run; create it if the run is new.

    Raises:
        RunError: the folder of a new run holds files already, or a run of several processes
            lacks `run_dir`.
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
    if process_rank() == 0:  # it creates the folder for all
        _require_new(run_dir)
        run_dir.mkdir(parents=True, exist_ok=True)
    return run_dir


def _require_new(run_dir: Path) -> None:
    """Raise RunError unless a folder is empty, or its run was killed before it saved anything.

    Such a folder has a lock and no results: the same command starts the run again there.
    """
    kept = RESULT_PATTERNS if (run_dir / LOCK).exists() else ("*",)
    if any(path for pattern in kept for path in run_dir.glob(pattern)):
        state = "a finished run" if (run_dir / "summary.json").exists() else "files"
        raise RunError(
            f"run_dir={run_dir} already holds {state}, which training would overwrite: "
            f"choose another folder, or continue the run in it: resume={run_dir}"
        )


@contextmanager
def opened(run_dir: Path, config: TrainConfig) -> Iterator[None]:
    """Lock a folder for training, and also write the project's log messages to its `train.log`.

    A new run writes its settings first, since a run that has settings can resume. If a new run
    fails before it has results, its folder is removed.

    Raises:
        RunError: another process trains in the folder, or the folder of a new run holds files.
    """
    new = config.resume is None
    with locked(run_dir):
        if new:
            _require_new(run_dir)
            write_settings(config, run_dir)
        own_log, log_file = logging.getLogger("seq2seq"), run_dir / "train.log"
        handler = logging.FileHandler(log_file, encoding="utf-8", delay=True)
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
        own_log.addHandler(handler)
        try:
            try:
                yield
            finally:
                own_log.removeHandler(handler)
                handler.close()
        except BaseException:
            if new and {path.name for path in run_dir.iterdir()} <= FILES_WITHOUT_RESULTS:
                shutil.rmtree(run_dir)
            raise


def write_settings(config: TrainConfig, run_dir: Path) -> None:
    """Write `<run>/config.yaml` atomically."""
    text = yaml.safe_dump(asdict(config) | {"resume": None}, sort_keys=False, allow_unicode=True)
    replace_text(run_dir / "config.yaml", text)


def plain_settings(config: TrainConfig) -> dict[str, Any]:
    """Return the settings as a dict, without folders: they mean nothing on other machines."""
    settings = asdict(config)
    settings["run_dir"] = settings["resume"] = settings["data"]["cache"] = None
    for corpus in (settings["data"], *settings["data"]["members"].values()):
        corpus["path"] = None
    return settings


@contextmanager
def locked(run_dir: Path) -> Iterator[None]:
    """Lock the folder against training by other processes; a killed process loses its lock.

    Remove the half-written files of killed processes.

    Raises:
        RunError: another process trains in the folder.
    """

    def refuse() -> None:
        raise RunError(
            f"another process trains in {run_dir} now: two would overwrite each other's "
            "checkpoints. Wait until it ends, or stop it; then give the same command again"
        )

    with lock(run_dir / LOCK, refuse):
        for part in (".", "checkpoints", "snapshots", METRICS.parent):
            remove_leftovers(run_dir / part)
        remove_stray_shards(run_dir)
        yield


def require_unfinished(run_dir: Path, checkpoint: Checkpoint, trainer: TrainerConfig) -> None:
    """Raise RunError if the run to resume has made all its steps, or stopped early."""
    if not checkpoint.content["validated"] or not (run_dir / "summary.json").exists():
        return  # the work after the last step is not finished
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
