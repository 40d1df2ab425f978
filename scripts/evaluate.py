"""Score a model, or translations that are there (docs/evaluation.md).

python scripts/evaluate.py model=FOLDER [data=multi30k] [split=test]   # or model=general
python scripts/evaluate.py hypothesis=FILE reference=FILE [source=FILE] [output=FILE.json]
python scripts/evaluate.py --check evaluation.json [reference=FILE source=FILE]
"""

import argparse
import sys
from pathlib import Path

from seq2seq.cli.exits import run_command
from seq2seq.cli.settings import hydra_command
from seq2seq.config import EvaluateConfig

FILES = ("model", "hypothesis", "reference", "source", "output", "comet", "comet_command")


def main(config: EvaluateConfig) -> None:
    from seq2seq.evaluation.evaluate import evaluate  # torch loads after the settings are checked

    evaluate(config)


def check() -> None:
    parser = argparse.ArgumentParser(description="Compute an evaluation again from its texts.")
    what = "record, or its folder; then reference=FILE and source=FILE, if they are not kept there"
    parser.add_argument("--check", required=True, metavar="FILE", nargs="+", help=what)
    names = parser.parse_args().check
    found = [name.partition("=") for name in names]
    given = {key: Path(file) for key, _, file in found if key in ("reference", "source") and file}
    from seq2seq.evaluation.check import check

    for name, (key, _, _) in zip(names, found, strict=True):
        if key not in given:
            print(check(Path(name), given))


if __name__ == "__main__":
    if any(argument.partition("=")[0] == "--check" for argument in sys.argv):
        run_command(check)
    else:
        hydra_command("evaluate", EvaluateConfig, main, folders=FILES)
