"""Which model `translate` takes when none is named."""

from __future__ import annotations

import os
from pathlib import Path

from seq2seq.errors import BundleError
from seq2seq.inference import shipped

NO_MODEL = """no model found: none was named, SEQ2SEQ_MODEL is not set, there is no finished run
below {runs}, and the model of this package is not in {pretrained}. To get one:
  - train the demo model in a few minutes (in a clone of the project): make demo
  - or train your own: seq2seq train, or python scripts/train.py
  - or name one: translate --model FOLDER "hello world\""""


def finished_runs(runs: Path) -> list[Path]:
    """Finished runs below a folder, oldest first."""
    return [f.parent for f in sorted(runs.glob("**/summary.json"), key=lambda f: f.stat().st_mtime)]


def find_model(named: str | None, runs: Path = Path("runs")) -> tuple[Path, str]:
    """The folder of the model to use, and why it is that one.

    In this order: the one named, SEQ2SEQ_MODEL, the newest finished run, the shipped one.

    Raises:
        BundleError: there is none, or not the one named; says how to get one.
    """
    if named:
        return shipped.model_folder(named), "named"
    if from_environment := os.environ.get("SEQ2SEQ_MODEL"):
        try:
            return shipped.model_folder(from_environment), "from SEQ2SEQ_MODEL"
        except BundleError as error:
            raise BundleError(
                f"SEQ2SEQ_MODEL={from_environment} is no folder: set it to the folder of a run or "
                f"a bundle, or to the name of the shipped model ({shipped.GENERAL}), or unset it"
            ) from error
    if finished := finished_runs(runs):
        return finished[-1], "the newest finished run"
    if found := shipped.shipped_model():
        return found, f"{shipped.GENERAL}, shipped with seq2seq"
    raise BundleError(NO_MODEL.format(runs=runs.resolve(), pretrained=shipped.PRETRAINED))
