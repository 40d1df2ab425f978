"""Saves the state of a run so that it can go on, whatever stops it."""

from __future__ import annotations

import logging
import os
import re
import signal
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import lightning as L
import torch
from torch import Tensor, nn

from seq2seq.errors import RunError, UserError

log = logging.getLogger(__name__)

KEEP = 2  # the newest, and the one before in case the newest was damaged


class Interrupted(UserError):
    """The run was stopped by a signal, after its state was saved."""

    def __init__(self, signal_number: int, step: int, run_dir: Path):
        self.exit_code = 128 + signal_number
        super().__init__(
            f"stopped by {signal.Signals(signal_number).name} after step {step}; everything is "
            f"saved. To go on: python scripts/train.py resume={run_dir}"
        )


def checkpoint_files(run_dir: Path) -> list[Path]:
    """The checkpoints of a run, oldest first."""
    found = (run_dir / "checkpoints").glob("step-*.ckpt")
    return sorted(path for path in found if re.fullmatch(r"step-\d{8}", path.stem))


def newest_checkpoint(run_dir: Path) -> Path | None:
    """The newest checkpoint that can be read, verified; None if the run has none at all.

    Raises:
        RunError: there are checkpoints, but every one is damaged.
    """
    files = checkpoint_files(run_dir)
    for path in reversed(files):
        try:
            torch.load(path, map_location="cpu", weights_only=True)["state_dict"]
        except Exception as error:  # whatever is wrong with it, the one before may be whole
            log.warning("%s is damaged (%s): trying the one before", path, error)
        else:
            return path
    if files:
        raise RunError(
            f"every checkpoint of {run_dir} is damaged ({', '.join(f.name for f in files)}): "
            "start a new run, or copy them again from where they were whole"
        )
    return None


def check_shapes(path: Path, model: nn.Module) -> None:
    """Refuse a checkpoint whose weights are not those of the model.

    Raises:
        RunError: names the first weight that differs.
    """
    stored = torch.load(path, map_location="cpu", weights_only=True, mmap=True)["state_dict"]
    shapes = {name.removeprefix("model."): tuple(value.shape) for name, value in stored.items()}
    for name, value in model.state_dict().items():
        if shapes.get(name) != tuple(value.shape):
            raise RunError(
                f"the checkpoint {path} belongs to another model: {name} has shape "
                f"{shapes.get(name, 'missing')} there, and {tuple(value.shape)} by the run's "
                "config.yaml and tokenizer.json. Put back the files that belong together"
            )


class Checkpoints(L.Callback):
    """Saves every N steps, after each validation, and when Ctrl-C or SIGTERM comes.

    A checkpoint is written beside its place and moved there when whole, so a half-written one is
    never taken for a checkpoint. The state of torch's random generators is in it, so that
    dropout goes on as if the run had never stopped.

    Args:
        run_dir: folder of the run; files go to `<run_dir>/checkpoints/step-N.ckpt`.
        every_n_steps: updates between two checkpoints.
        val_every_n_steps: steps that save after their validation rather than before.
    """

    def __init__(self, run_dir: Path, every_n_steps: int, val_every_n_steps: int):
        self.run_dir = run_dir
        self.every_n_steps = every_n_steps
        self.val_every_n_steps = val_every_n_steps
        self._signal: int | None = None
        self._random_state: dict[str, Any] | None = None
        self._old_handlers: dict[int, Any] = {}

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._old_handlers[number] = signal.signal(number, self._remember_signal)

    def teardown(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        for number, handler in self._old_handlers.items():
            signal.signal(number, handler)
        self._old_handlers = {}

    def _remember_signal(self, number: int, frame: FrameType | None) -> None:
        if self._signal is None:
            print("\nstopping: the step, and a validation if due, are finished and saved first")
        else:  # asked twice: at once, without saving
            handler: Callable[..., Any] = signal.default_int_handler
            signal.signal(number, handler)
            raise KeyboardInterrupt
        self._signal = number

    def on_train_batch_start(
        self, trainer: L.Trainer, pl_module: L.LightningModule, batch: Any, batch_idx: int
    ) -> None:
        if self._random_state is not None:
            torch.set_rng_state(self._random_state["cpu"])
            if len(self._random_state["cuda"]) == torch.cuda.device_count() > 0:
                torch.cuda.set_rng_state_all(self._random_state["cuda"])
            self._random_state = None

    def on_train_batch_end(
        self,
        trainer: L.Trainer,
        pl_module: L.LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
    ) -> None:
        step = trainer.global_step
        if (batch_idx + 1) % trainer.accumulate_grad_batches:
            return  # an update is still being gathered
        if step >= trainer.max_steps:
            trainer.should_stop = True  # has Lightning validate the last step too
        elif step % self.val_every_n_steps == 0:
            pass  # saved after its validation: resuming would not make up for a missed one
        elif self._signal is not None:
            self._save(trainer)
            raise Interrupted(self._signal, step, self.run_dir)
        elif step % self.every_n_steps == 0:
            self._save(trainer)

    def on_validation_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self._save(trainer)
        if self._signal is not None and trainer.global_step < trainer.max_steps:
            raise Interrupted(self._signal, trainer.global_step, self.run_dir)

    def _save(self, trainer: L.Trainer) -> None:
        step = trainer.global_step
        path = self.run_dir / "checkpoints" / f"step-{step:08d}.ckpt"
        partial = path.with_suffix(".partial")
        try:
            trainer.save_checkpoint(partial)
            if trainer.is_global_zero:
                os.replace(partial, path)
                for old in checkpoint_files(self.run_dir)[:-KEEP]:
                    old.unlink()
        except OSError as error:
            partial.unlink(missing_ok=True)
            raise RunError(
                f"step {step} could not be saved to {path}: {error.strerror}. Make room or mend "
                f"the folder, then go on from the last checkpoint: "
                f"python scripts/train.py resume={self.run_dir}"
            ) from error

    def on_save_checkpoint(
        self, trainer: L.Trainer, pl_module: L.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        cuda: list[Tensor] = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
        checkpoint["random_state"] = {"cpu": torch.get_rng_state(), "cuda": cuda}

    def on_load_checkpoint(
        self, trainer: L.Trainer, pl_module: L.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        self._random_state = checkpoint["random_state"]
