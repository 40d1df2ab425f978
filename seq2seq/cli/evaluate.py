"""Score a model on a test set, or translations that are there.

  seq2seq evaluate bundle=runs/demo data=multi30k split=test       or bundle=general
  seq2seq evaluate hypothesis=FILE reference=FILE source=FILE output=FILE.json
  seq2seq evaluate check=runs/demo/evaluation/multi30k-test        compute all of it again

Read on in docs/evaluation.md, about the search in docs/decoding.md.
"""

from __future__ import annotations

from pathlib import Path

from seq2seq.cli.settings import hydra_command
from seq2seq.config import EvaluateConfig


def main() -> None:
    hydra_command("evaluate", EvaluateConfig, run, __doc__)


def run(config: EvaluateConfig) -> None:
    # Here, since torch loads only after the settings are checked.
    if config.check is None:
        from seq2seq.evaluation.evaluate import evaluate

        evaluate(config)
        if config.bundle is not None:
            from seq2seq.report.page import refresh_report

            refresh_report(Path(str(config.bundle)))
        return
    from seq2seq.evaluation.check import check

    texts = {"reference": config.reference, "source": config.source}
    given = {name: Path(file) for name, file in texts.items() if file is not None}
    for file in config.check if isinstance(config.check, list) else [config.check]:
        print(check(Path(str(file)), given))


if __name__ == "__main__":
    main()
