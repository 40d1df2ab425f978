"""Score a model on a test set, or given translations.

  seq2seq evaluate bundle=runs/demo data=multi30k split=test       or bundle=general
  seq2seq evaluate bundle=general data=sacrebleu data.test=wmt15   a set that sacreBLEU knows
  seq2seq evaluate hypothesis=FILE reference=FILE source=FILE output=FILE.json

Read on in docs/how-to/evaluate.md, about the search in docs/explanation/search.md.
"""

from __future__ import annotations

from pathlib import Path

from seq2seq.cli.settings import hydra_command
from seq2seq.config import EvaluateConfig


def main() -> None:
    hydra_command("evaluate", EvaluateConfig, run, __doc__)


def run(config: EvaluateConfig) -> None:
    # Here, since torch loads only after the settings are checked.
    from seq2seq.evaluation.evaluate import evaluate
    from seq2seq.report.page import refresh_report, run_of
    from seq2seq.trackers.lineage import log_evaluation

    record = evaluate(config)
    if config.bundle is not None and (run := run_of(Path(config.bundle))):
        log_evaluation(run, record)
        refresh_report(run)
