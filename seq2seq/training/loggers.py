"""Where curves go: W&B (online or offline), TensorBoard, CSV; never a prompt, hang or failure."""

from __future__ import annotations

import logging
import os
import secrets
import warnings
from argparse import Namespace
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from lightning.pytorch.loggers import CSVLogger, Logger, TensorBoardLogger, WandbLogger

from seq2seq.config import LoggerConfig
from seq2seq.errors import RunError
from seq2seq.training.hardware import process_rank
from seq2seq.training.metrics_file import METRICS, whole_rows
from seq2seq.wandb_access import fault, has_key, reachable

log = logging.getLogger(__name__)

WANDB_TIMEOUT = 20  # seconds to wait for W&B before going offline
WANDB_FINISH_TIMEOUT = 600  # seconds that uploading may take at the end
WANDB_MODES = ("online", "offline", "disabled")


def make_loggers(
    config: LoggerConfig,
    run_dir: Path,
    settings: dict[str, Any],
    step: int = 0,
    validated: bool = True,
) -> list[Logger]:
    """The chosen logger and, unless it is `none`, `<run>/metrics/version_0/metrics.csv`.

    Args:
        config: which kind.
        run_dir: folder of the run.
        settings: the run's resolved settings as a plain dict, shown beside the curves.
        step: updates that were made when the run goes on.
        validated: whether the validation that was due then is done.
    """
    if config.kind == "none" or process_rank() != 0:
        return []
    loggers: list[Logger] = [_curves(run_dir, step, validated)]
    if config.kind == "tensorboard":
        # What stands there from this step on will be made again, and is no longer shown.
        board = TensorBoardLogger(
            run_dir, name="tensorboard", version=0, default_hp_metric=False, purge_step=step
        )
        loggers.append(board)
    elif config.kind == "wandb":
        wandb_logger = _make_wandb(config, run_dir)
        if wandb_logger is not None:
            loggers.append(wandb_logger)
    for logger in loggers:
        if not isinstance(logger, CSVLogger):  # that would write them a second time
            logger.log_hyperparams(settings)
    return loggers


def _curves(run_dir: Path, step: int, validated: bool) -> CSVLogger:
    """One file for the whole run: rows up to `step` are kept, later ones will be made again."""
    file = run_dir / METRICS
    old = file.with_suffix(".old")
    if file.exists() and not old.exists():
        file.rename(old)  # Lightning would delete it
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Experiment logs directory")
        logger = CSVLogger(run_dir, name="metrics", version=0, flush_logs_every_n_steps=1)
        experiment = logger.experiment
    if old.exists():
        # Lightning counts from 0: what belongs to the last of `step` updates has step - 1.
        kept = [row for row in whole_rows(old) if int(row["step"]) < step]
        kept = [row for row in kept if "val/bleu_of_average" not in row]  # made at the very end
        if not validated:
            kept = [r for r in kept if int(r["step"]) < step - 1 or not any("val/" in k for k in r)]
        experiment.metrics = kept
        experiment.save()
        old.unlink()
    return logger


class GuardedWandbLogger(WandbLogger):
    """What goes wrong with W&B is said once; it then gets no more curves, and the run goes on."""

    on = True

    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        self._guarded(super().log_metrics, metrics, step)

    def log_hyperparams(self, params: dict[str, Any] | Namespace) -> None:
        self._guarded(super().log_hyperparams, params)

    def finalize(self, status: str) -> None:
        self._guarded(super().finalize, status)

    def _guarded(self, work: Callable[..., None], *arguments: Any) -> None:
        if not self.on:
            return
        try:
            work(*arguments)
        except Exception as error:  # such as a ConnectionError, when its process was killed
            self.on = False
            log.warning("W&B gets no more curves of this run, which goes on: %r", error)


def _make_wandb(config: LoggerConfig, run_dir: Path) -> WandbLogger | None:
    for mode in dict.fromkeys((_wandb_mode(), "offline")):
        try:
            logger = GuardedWandbLogger(experiment=_start_wandb(config, run_dir, mode))
        except Exception as error:  # whatever is wrong with W&B, training goes on
            log.warning("W&B (%s) did not start: %s", mode, error)
            continue
        if mode == "offline":
            log.info("W&B is offline; to upload: wandb sync %s/wandb/offline-run-*", run_dir)
        return logger
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
    run.define_metric("trainer/global_step", hidden=True)
    run.define_metric("*", step_metric="trainer/global_step", step_sync=True)
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
