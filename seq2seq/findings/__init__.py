"""Findings: what looks wrong with a run, in plain words, with the evidence and a remedy.

Start with `record.py`. A check is a function of what a run recorded, so the same checks run before
training, after each validation, at the end, and in reports of old runs. To add one, write it in
`before.py` or `curves.py` and list it in `CHECKS`.
"""

from __future__ import annotations

import logging

from seq2seq.findings import before, curves
from seq2seq.findings.record import Finding, Record

__all__ = ["CHECKS", "Finding", "Record", "findings"]

log = logging.getLogger(__name__)

CHECKS = (  # the gravest first
    curves.diverged, curves.not_learning, before.shuffled_targets, before.columns_swapped,
    curves.leaked, before.warmup_long, before.batch_unusual, curves.frozen_block,
    curves.source_ignored, curves.overfitting, before.tiny_data, before.few_kept,
    curves.source_copied, curves.output_degenerate, curves.output_cut_off,
    curves.gradient_spikes, curves.data_bound, curves.padding_high, curves.validation_costly,
    before.rare_vocabulary, before.precision_slow,
)  # fmt: skip


def findings(record: Record) -> list[Finding]:
    """Run all checks, and return what they find. If a check raises, log it and continue."""
    found = []
    for check in CHECKS:
        try:
            one = check(record)
        except Exception as error:
            log.warning("the check %s failed, which the run survives: %r", check.__name__, error)
            continue
        if one is not None:
            found.append(one)
    return found
