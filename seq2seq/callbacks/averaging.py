"""Keeps validated weights, and at the end of training ships their average if that is better."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import lightning as L

from seq2seq.callbacks.validation_bleu import ValidationBleu
from seq2seq.errors import RunError, UserError
from seq2seq.inference.averaging import (
    average_weights,
    choose,
    fill,
    read_snapshots,
    save_snapshot,
)
from seq2seq.inference.bundle import unique_weights
from seq2seq.model.translation_model import TranslationModel
from seq2seq.training.task import TranslationTask

log = logging.getLogger(__name__)


class Averaging(L.Callback):
    """Snapshots at each validation, as many as can still be needed; their average at the end.

    Stands behind the callback of EMA, if there is one: a snapshot holds what was validated.

    Args:
        run_dir: folder of the run; files go to `<run_dir>/snapshots`.
        count: snapshots in the average.
        by: `last`, or `best` by validation BLEU.
        bleu: scores weights and ships the best; stands before this callback.
    """

    def __init__(self, run_dir: Path, count: int, by: str, bleu: ValidationBleu):
        self.run_dir, self.count, self.by, self.bleu = run_dir, count, by, bleu
        self.summary: dict[str, Any] | None = None  # of the average, once there is one

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        if trainer.is_global_zero:
            for snapshot in read_snapshots(self.run_dir):
                if snapshot.step > trainer.global_step:  # made after the state that is resumed
                    snapshot.path.unlink()

    def on_validation_epoch_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        assert isinstance(pl_module, TranslationTask)
        error: Exception | None = None
        if trainer.is_global_zero:
            try:
                self._keep(pl_module.model, trainer.global_step)
            except (UserError, OSError) as caught:
                error = caught
        (failed,) = self.bleu.stop.processes.largest(int(error is not None))
        if error is not None:
            raise error
        if failed:
            raise RunError(
                f"the first process could not keep {self.run_dir}/snapshots: see what it says"
            )

    def _keep(self, model: TranslationModel, step: int) -> None:
        """Save validated weights, and remove those that no average will need."""
        save_snapshot(model, self.run_dir, step, self.bleu.latest)
        found = read_snapshots(self.run_dir)
        needed = choose(found, self.count, self.by)
        for snapshot in found:
            if snapshot not in needed:
                snapshot.path.unlink()

    def on_train_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        assert isinstance(pl_module, TranslationTask)
        trainer.strategy.barrier()  # the files of the first process are whole
        chosen = choose(read_snapshots(self.run_dir), self.count, self.by)
        steps = [snapshot.step for snapshot in chosen]
        if len(set(map(tuple, self.bleu.stop.processes.gather(steps)))) > 1:
            raise RunError(
                f"the processes see different files in {self.run_dir}/snapshots: see that all "
                f"machines read the same folder, then go on: python scripts/train.py "
                f"resume={self.run_dir}"
            )
        if len(chosen) < 2:
            log.info("nothing to average: this run was validated %d time(s)", len(chosen))
            return
        model = pl_module.model
        raw = {name: value.clone() for name, value in unique_weights(model).items()}
        fill(model, average_weights([snapshot.path for snapshot in chosen]))
        model.eval()
        score, _ = self.bleu.score(trainer, model)
        shipped = score > self.bleu.best and score >= self.bleu.average
        if shipped:
            averaged = [f"step {step}" for step in steps]
            self.bleu.ship(trainer, model, steps[-1], score, averaged=averaged)
            self.bleu.average = score
        model.train()
        fill(model, raw)
        self.summary = {"steps": steps, "val_bleu": round(score, 4), "shipped": shipped}
        for logger in trainer.loggers:  # which count from 0, as Lightning does
            logger.log_metrics({"val/bleu_of_average": score}, step=trainer.global_step - 1)
        log.info(
            "average of steps %s: validation BLEU %.2f; best of one step %.2f: %s is the bundle",
            *(", ".join(map(str, steps)), score, self.bleu.best),
            "the average" if shipped else "that step",
        )
