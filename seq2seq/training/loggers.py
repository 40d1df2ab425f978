"""Where curves go: W&B (online or offline), TensorBoard, CSV; never a prompt, hang or failure."""

from __future__ import annotations

import logging
import os
import secrets
import socket
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

from lightning.pytorch.loggers import CSVLogger, Logger, TensorBoardLogger, WandbLogger

from seq2seq.config import LoggerConfig
from seq2seq.errors import RunError
from seq2seq.training.hardware import process_rank

log = logging.getLogger(__name__)

WANDB_TIMEOUT = 20  # seconds to wait for W&B before going offline


def make_loggers(config: LoggerConfig, run_dir: Path, settings: dict[str, Any]) -> list[Logger]:
    """The chosen logger and, unless it is `none`, `<run>/metrics/version_*/metrics.csv`.

    Args:
        config: which kind.
        run_dir: folder of the run.
        settings: the run's resolved settings as a plain dict, shown beside the curves.
    """
    if config.kind == "none" or process_rank() != 0:
        return []
    loggers: list[Logger] = [CSVLogger(run_dir, name="metrics")]
    if config.kind == "tensorboard":
        loggers.append(TensorBoardLogger(run_dir, name="tensorboard"))
    elif config.kind == "wandb":
        wandb_logger = _make_wandb(config, run_dir)
        if wandb_logger is not None:
            loggers.append(wandb_logger)
    for logger in loggers:
        if not isinstance(logger, CSVLogger):  # that would write them a second time
            logger.log_hyperparams(settings)
    return loggers


def _make_wandb(config: LoggerConfig, run_dir: Path) -> WandbLogger | None:
    import wandb

    mode = os.environ.get("WANDB_MODE") or ("online" if _wandb_key() else "offline")
    if mode == "online" and not _reachable(os.environ.get("WANDB_BASE_URL")):
        log.warning("W&B cannot be reached: this run is logged offline")
        mode = "offline"
    id_file = run_dir / "wandb_id"
    if not id_file.exists():
        id_file.write_text(secrets.token_hex(4))
    for attempt in dict.fromkeys((mode, "offline")):
        try:
            run = wandb.init(
                project=config.project,
                name=run_dir.name,
                dir=run_dir,
                id=id_file.read_text(),
                resume="allow" if attempt == "online" else None,
                mode=attempt,  # type: ignore[arg-type]  # checked by wandb
                settings=wandb.Settings(
                    init_timeout=WANDB_TIMEOUT, console="off", silent=True, x_disable_stats=False
                ),
            )
        except Exception as error:  # whatever is wrong with W&B, training goes on
            log.warning("W&B (%s) did not start: %s", attempt, error)
            continue
        if attempt == "offline":
            log.info("W&B is offline; to upload: wandb sync %s", Path(run.dir).parent)
        return WandbLogger(experiment=run)
    return None


def _wandb_key() -> str | None:
    import wandb

    try:
        return os.environ.get("WANDB_API_KEY") or wandb.Api().api_key
    except Exception:  # no key configured, or an unreadable netrc
        return None


def _reachable(base_url: str | None) -> bool:
    url = urlparse(base_url or "https://api.wandb.ai")
    port = url.port or (443 if url.scheme == "https" else 80)
    try:
        with socket.create_connection((url.hostname or "", port), timeout=5):
            return True
    except OSError:
        return False


def require_tensorboard(config: LoggerConfig) -> None:
    """Raise RunError early if the TensorBoard package is missing."""
    if config.kind == "tensorboard":
        try:
            import tensorboard  # noqa: F401
        except ImportError as error:
            raise RunError(
                "logger=tensorboard needs the package tensorboard: pip install tensorboard"
            ) from error
