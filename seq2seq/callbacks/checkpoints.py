"""Saves the state of a run so that it can go on, whatever stops it."""

from __future__ import annotations

import logging
import signal
import time
from pathlib import Path
from typing import Any

import lightning as L

from seq2seq import __version__
from seq2seq.callbacks.checkpoint_files import FORMAT, SafeFiles, checkpoint_path, remove_old
from seq2seq.callbacks.random_state import random_state, seed_process, set_random_state
from seq2seq.config import CheckpointConfig
from seq2seq.errors import RunError
from seq2seq.training.stopping import Interrupted, StopRequest

log = logging.getLogger(__name__)


class Checkpoints(L.Callback):
    """Saves every N steps or minutes, around each validation, and when Ctrl-C or SIGTERM comes.

    All of it happens after a step, and all processes do the same. A checkpoint is saved before a
    validation, which takes long, and again after it; a run that goes on from the first of them
    begins with the validation that it owes. It must stand behind all other callbacks, so that
    what they did after the step is in the checkpoint.

    Args:
        run_dir: folder of the run; files go to `<run_dir>/checkpoints/step-N.ckpt`.
        config: when to save.
        val_every_n_steps: steps from one validation to the next.
        files: the plugin of the trainer that writes them.
        stop: knows of signals.
        settings: of the run as a plain dict, compared when it goes on.
        seed: of the run; made into those of processes that have no random state to go on with.

    Attributes:
        wanted: set by another callback to have the state saved after this step.
    """

    wanted = False

    def __init__(
        self,
        run_dir: Path,
        config: CheckpointConfig,
        val_every_n_steps: int,
        files: SafeFiles,
        stop: StopRequest,
        settings: dict[str, Any],
        seed: int,
    ):
        self.run_dir, self.config, self.val_every_n_steps = run_dir, config, val_every_n_steps
        self.files, self.stop, self.settings, self.seed = files, stop, settings, seed
        self._loaded: dict[str, Any] | None = None
        self._random_state: dict[str, Any] | None = None
        self._extra_step = 0
        self._saved_at = time.monotonic()
        self._validated = True
        self._stopping = 0  # the signal, once the state is saved

    def setup(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        self.stop.processes.connect()

    def teardown(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        self.stop.leave()

    def on_exception(
        self, trainer: L.Trainer, pl_module: L.LightningModule, exception: BaseException
    ) -> None:
        self.stop.leave()

    def on_load_checkpoint(
        self, trainer: L.Trainer, pl_module: L.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        self._loaded = entry = checkpoint["seq2seq"]
        then, now = entry.get("precision", trainer.precision), trainer.precision
        if then != now and trainer.is_global_zero:
            log.warning(
                "the run computed in %s so far and goes on in %s: to keep it, resume with "
                "trainer.precision=%s",
                *(then, now, then),
            )
        _count_batches(checkpoint, trainer.accumulate_grad_batches)
        if checkpoint["global_step"] >= trainer.max_steps:
            self._extra_step = 1  # else Lightning would end before it has even begun
            trainer.fit_loop.epoch_loop.max_steps += 1

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        # Lightning took SIGTERM while data were opened, and would forget what we have to save.
        self.stop.listen(signal.SIGTERM if trainer.received_sigterm else 0)
        trainer._signal_connector.received_sigterm = False
        # Lightning would ask the GPU about signals in each step, and so wait for it.
        trainer.fit_loop.epoch_loop._broadcast_sigterm_tensor = lambda: None  # type: ignore[method-assign]
        trainer.fit_loop.epoch_loop.max_steps -= self._extra_step
        self._saved_at = time.monotonic()
        steps = self.stop.processes.gather(trainer.global_step)
        if len(set(steps)) > 1:
            raise RunError(
                f"the processes found different checkpoints of {self.run_dir} (steps "
                f"{', '.join(map(str, steps))}): see that all machines read the same folder, then "
                "start again"
            )
        self._find_random_state(trainer)
        if self._loaded is not None and not self._loaded["validated"]:
            log.info("the validation after step %d was not finished: again", trainer.global_step)
            self._restore_random_state()
            trainer.validating = True
            trainer.fit_loop.epoch_loop.val_loop.run()
            trainer.training = True
            self._random_state = random_state()
        self._loaded = None

    def _find_random_state(self, trainer: L.Trainer) -> None:
        """That of this process in the checkpoint; where it has none, new seeds."""
        rank, step = trainer.global_rank, trainer.global_step
        states = [] if self._loaded is None else self._loaded["random_states"]
        if states and len(states) != trainer.world_size:
            log.warning(
                "the run goes on with %d processes instead of %d: from the same weights and the "
                "same place in the data, but dropout and the order of additions are others, so "
                "its end is not the same to the bit",
                *(trainer.world_size, len(states)),
            )
        if rank < len(states):
            self._random_state = states[rank]
        elif rank > 0:  # the first process of a new run was seeded before its weights were made
            seed_process(self.seed, rank, step)

    def _restore_random_state(self) -> None:
        if self._random_state is not None:
            set_random_state(self._random_state)
            self._random_state = None

    def on_train_batch_start(
        self, trainer: L.Trainer, pl_module: L.LightningModule, batch: Any, batch_idx: int
    ) -> None:
        if self._stopping:  # here, since the metrics of the step before are written by now
            raise Interrupted(self._stopping, trainer.global_step, self.run_dir)
        self._restore_random_state()  # here, since opening loaders may have drawn numbers

    def on_train_batch_end(
        self,
        trainer: L.Trainer,
        pl_module: L.LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
    ) -> None:
        if (batch_idx + 1) % trainer.accumulate_grad_batches:
            return  # an update is still being gathered
        step = trainer.global_step
        if step >= trainer.max_steps:
            trainer.should_stop = True  # has Lightning validate the last step too
        self._stopping, late = self.stop.agreed(self._is_late())
        due = step % self.val_every_n_steps == 0 or trainer.should_stop
        regular = step % self.config.every_n_steps == 0
        if due or self._stopping or late or regular or self.wanted:
            self._save(trainer, validated=not due)

    def _is_late(self) -> bool:
        """Whether `every_minutes` have passed on the clock of the first process."""
        minutes = self.config.every_minutes
        if minutes is None or self.stop.processes.rank != 0:
            return False
        return time.monotonic() - self._saved_at >= 60 * minutes

    def on_validation_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        if self._stopping:
            raise Interrupted(self._stopping, trainer.global_step, self.run_dir)

    def on_validation_batch_start(
        self,
        trainer: L.Trainer,
        pl_module: L.LightningModule,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        self.stop.leave_if_asked()  # ValidationBleu comes next, and ends the run

    def on_validation_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self._save(trainer, validated=True)

    def _save(self, trainer: L.Trainer, validated: bool) -> None:
        step, self._validated = trainer.global_step, validated
        self.wanted = False
        path = checkpoint_path(self.run_dir, step)
        for logger in trainer.loggers:
            logger.save()
        trainer.save_checkpoint(path)
        failed = self.files.error is not None
        if self.stop.processes.largest(failed)[0]:
            reason = self.files.error.strerror if self.files.error else "see the first process"
            raise RunError(
                f"step {step} could not be saved to {path}: {reason}. Make room or mend the "
                f"folder, then go on from the last checkpoint: "
                f"python scripts/train.py resume={self.run_dir}"
            ) from self.files.error
        if trainer.is_global_zero:
            remove_old(self.run_dir, step)
        self._saved_at = time.monotonic()

    def on_save_checkpoint(
        self, trainer: L.Trainer, pl_module: L.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        checkpoint["seq2seq"] = {
            "format": FORMAT,
            "version": __version__,
            "settings": self.settings,
            "validated": self._validated,
            "precision": trainer.precision,
            "random_states": self.stop.processes.gather(random_state()),
        }


def _count_batches(checkpoint: dict[str, Any], accumulate: int) -> None:
    """Let Lightning's counters of batches say what they would with this `accumulate`.

    It validates after so many batches, and a step is so many batches; with the counters of
    another `accumulate` both would come at the wrong time.
    """
    batches = checkpoint["global_step"] * accumulate
    progress = checkpoint["loops"]["fit_loop"]["epoch_loop.batch_progress"]
    for counts in (progress["total"], progress["current"]):
        open_batches = counts["ready"] - counts["completed"]
        counts |= dict.fromkeys(("ready", "started", "processed"), batches)
        counts["completed"] = batches - open_batches
