"""Tells what looks wrong with a run: before its first step, after each validation, at its end."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from seq2seq.data.prepared import prepared_pairs
from seq2seq.data.report import Report
from seq2seq.evaluation.training_text import compare
from seq2seq.findings import Finding, Record, findings
from seq2seq.trackers import Table
from seq2seq.trackers.csv import METRICS, read_curves
from seq2seq.training.callbacks import Callback
from seq2seq.training.callbacks.samples import Samples

if TYPE_CHECKING:
    from seq2seq.training.trainer import Trainer

log = logging.getLogger(__name__)

LARGE = 500_000  # pairs that are read in some 5 s, and not more


class Findings(Callback):
    """Logs each kind of finding once, and gives all of them to the trackers at the end.

    Stands behind all other callbacks, whose figures it reads from the table of curves.

    Args:
        samples: sentences of the last validation.
        data: the report of the prepared data.
    """

    def __init__(self, samples: Samples, data: Report):
        self.samples, self.data = samples, data
        self._told: set[str] = set()

    def on_train_start(self, trainer: Trainer) -> None:
        if trainer.run.processes.rank == 0:
            if trainer.step == 0:
                try:
                    trainer.log(leakage(trainer))
                except Exception as error:
                    log.warning("whether validation text is trained on is not known: %r", error)
            self._record = Record(trainer.run.settings, data=self.data)
            self._tell(trainer)

    def on_validation_end(self, trainer: Trainer) -> None:
        if trainer.run.processes.rank == 0:
            trainer.write_row()  # the figures of this validation count
            self._tell(trainer)

    def on_train_end(self, trainer: Trainer) -> None:
        if trainer.run.processes.rank != 0:
            return
        rows = [[one.title, one.evidence, one.remedy] for one in self._tell(trainer)]
        table = Table(["finding", "evidence", "remedy"], rows or [["none", "", ""]])
        for tracker in trainer.trackers:
            tracker.log_media("findings", lambda: {"run/findings": table}, trainer.step - 1)

    def _tell(self, trainer: Trainer) -> list[Finding]:
        """Log what is new; returns all that is found."""
        curves = read_curves(trainer.run.folder / METRICS)
        found = findings(replace(self._record, curves=curves, samples=self.samples.lines))
        for one in found:
            if one.kind not in self._told:
                log.warning("finding     %s", one)
        self._told |= {one.kind for one in found}
        return found


def leakage(trainer: Trainer) -> dict[str, float]:
    """The share of validation pairs that are trained on, where no filter sees to it.

    Of large corpora nobody knows: reading them takes minutes.
    """
    data = trainer.data
    if "leakage" in data.cleaning.filters or not data.val_pairs:
        return {}
    if data.prepared.report.kept > LARGE:
        return {}
    training = prepared_pairs(data.prepared.folder)
    found = compare(training, *zip(*data.val_pairs, strict=True))
    return {"data/val_in_training_share": sum(found.pairs) / len(found.pairs)}
