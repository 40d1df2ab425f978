"""Findings: what looks wrong with a run, before its first step, after validations, at its end."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import islice

from seq2seq.data.corpus import Pair
from seq2seq.data.datamodule import TranslationData
from seq2seq.data.prepared import prepared_pairs
from seq2seq.data.report import Report
from seq2seq.data.sources import load_pairs
from seq2seq.errors import UserError
from seq2seq.evaluation.training_text import compare
from seq2seq.findings import Finding, Record, findings
from seq2seq.trackers import Table
from seq2seq.trackers.csv import METRICS, read_curves
from seq2seq.training.callbacks import Callback
from seq2seq.training.callbacks.samples import Samples
from seq2seq.training.trainer import Trainer

log = logging.getLogger(__name__)

LARGE = 500_000  # the most pairs that are read, which takes some 5 s


class Findings(Callback):
    """Logs each kind of finding once, and gives all of them to the trackers at the end.

    Must be the last callback: it reads the figures of the others from the table of curves.
    """

    def __init__(self, samples: Samples, data: Report):
        self.samples, self.data = samples, data
        self._told: set[str] = set()

    def on_train_start(self, trainer: Trainer) -> None:
        if trainer.step == 0:
            try:
                trainer.log(shares(trainer.data))
            except Exception as error:
                log.warning("what the training text holds is not known: %r", error)
        run = trainer.run
        self._record = Record(run.settings, data=self.data, device=run.device)
        self._tell(trainer)

    def on_validation_end(self, trainer: Trainer) -> None:
        trainer.write_row()  # so that the curves include this validation
        self._tell(trainer)

    def on_train_end(self, trainer: Trainer) -> None:
        rows = [[one.title, one.evidence, one.remedy] for one in self._tell(trainer)]
        table = Table(["finding", "evidence", "remedy"], rows or [["none", "", ""]])
        for tracker in trainer.trackers:
            tracker.log_media("findings", lambda: {"run/findings": table}, trainer.step - 1)

    def _tell(self, trainer: Trainer) -> list[Finding]:
        """Log findings of new kinds; return all findings."""
        curves = read_curves(trainer.run.folder / METRICS)
        found = findings(replace(self._record, curves=curves, samples=self.samples.lines))
        for one in found:
            if one.kind not in self._told:
                log.warning("finding     %s", one)
        self._told |= {one.kind for one in found}
        return found


def shares(data: TranslationData) -> dict[str, float]:
    """Return the shares of pairs that should not be trained on, unless a filter removes them: pairs
    with equal sides, and for each evaluation split the share that is in the training text.

    Empty for large corpora, since reading them takes minutes.
    """
    if {"identical", "leakage"} <= set(data.cleaning.filters) or data.prepared.report.kept > LARGE:
        return {}
    splits = {"val": data.val_pairs, "test": []}
    with suppress(UserError):  # there is no test split
        splits["test"] = load_pairs(data.data, "test")
    pairs = [pair for one in splits.values() for pair in one]
    same = 0

    def training() -> Iterator[Pair]:
        nonlocal same
        for source, target in prepared_pairs(data.prepared.folder):
            same += source == target
            yield source, target

    shared = compare(training(), [pair[0] for pair in pairs], [pair[1] for pair in pairs])
    found = {"data/identical_share": same / max(1, shared.pairs_read)}
    if "leakage" not in data.cleaning.filters:
        seen = iter(shared.pairs)
        found |= {f"data/{split}_in_training_share": sum(islice(seen, len(one))) / len(one)
                  for split, one in splits.items() if one}  # fmt: skip
    return found
