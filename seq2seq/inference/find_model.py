"""Which model `translate` takes when none is named."""

from __future__ import annotations

import os
from importlib import resources
from pathlib import Path

from seq2seq.errors import BundleError

NO_MODEL = """no model found: none was named, SEQ2SEQ_MODEL is not set, there is no finished run
below {runs}, and this package ships no model. To get one:
  - train the demo model in a few minutes (in a clone of the project): make demo
  - or train your own: python scripts/train.py
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
        if not Path(named).is_dir():
            raise BundleError(
                f"no model folder {named}: give the folder of a run (runs/...) or of a bundle"
            )
        return Path(named), "named"
    if from_environment := os.environ.get("SEQ2SEQ_MODEL"):
        if not Path(from_environment).is_dir():
            raise BundleError(
                f"SEQ2SEQ_MODEL={from_environment} is no folder: set it to the folder of a run or "
                "a bundle, or unset it"
            )
        return Path(from_environment), "from SEQ2SEQ_MODEL"
    if finished := finished_runs(runs):
        return finished[-1], "the newest finished run"
    shipped = Path(str(resources.files("seq2seq"))) / "bundle"
    if shipped.is_dir():
        return shipped, "shipped with seq2seq"
    raise BundleError(NO_MODEL.format(runs=runs.resolve()))
