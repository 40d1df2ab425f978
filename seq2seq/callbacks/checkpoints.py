"""Saves the state of a run so that it can go on, whatever stops it."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import lightning as L
import torch
from torch import Tensor

from seq2seq.errors import RunError, UserError

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
    return sorted(found, key=lambda path: int(re.findall(r"\d+", path.stem)[0]))


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
        self._saved_step = -1
        self._old_handlers: dict[int, Any] = {}

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self._saved_step = trainer.global_step
        for number in (signal.SIGINT, signal.SIGTERM):
            self._old_handlers[number] = signal.signal(number, self._remember_signal)

    def teardown(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        for number, handler in self._old_handlers.items():
            signal.signal(number, handler)
        self._old_handlers = {}

    def _remember_signal(self, number: int, frame: FrameType | None) -> None:
        if self._signal is None:
            print("\nstopping: this step is finished and saved first", flush=True)
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
            if self._random_state["cuda"]:
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
        if self._signal is not None:
            self._save_and_stop(trainer, self._signal)
        last = step >= trainer.max_steps
        if last:
            trainer.should_stop = True  # has Lightning validate the last step too
        if step % self.every_n_steps == 0 and step % self.val_every_n_steps and not last:
            self._save(trainer)

    def on_validation_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        if trainer.state.fn != "fit":
            return
        self._save(trainer)
        if self._signal is not None:
            self._save_and_stop(trainer, self._signal)

    def _save_and_stop(self, trainer: L.Trainer, number: int) -> None:
        self._save(trainer)
        raise Interrupted(number, trainer.global_step, self.run_dir)

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
                f"step {step} could not be saved to {path}: {error}. Make room or mend the "
                f"folder, then go on from the last checkpoint: "
                f"python scripts/train.py resume={self.run_dir}"
            ) from error
        self._saved_step = step

    def on_save_checkpoint(
        self, trainer: L.Trainer, pl_module: L.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        cuda: list[Tensor] = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
        checkpoint["random_state"] = {"cpu": torch.get_rng_state(), "cuda": cuda}

    def on_load_checkpoint(
        self, trainer: L.Trainer, pl_module: L.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        self._random_state = checkpoint["random_state"]
