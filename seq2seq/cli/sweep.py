"""Several runs of one command (`-m`): a folder for each, and a table of what came out.

<sweep>/0-model.dropout_0.1/   a run
<sweep>/1-model.dropout_0.3/   another
<sweep>/sweep.jsonl            a line for each that has ended: settings, best BLEU or error
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from seq2seq.errors import RunError, UserError

SIGNALLED = 128  # exit codes above it: stopped by a signal


@dataclass(frozen=True)
class Sweep:
    """The runs of one command.

    Attributes:
        folder: holds them all.
        command: the arguments as given; what a run has beside them makes it different.
    """

    folder: Path
    command: tuple[str, ...]

    @classmethod
    def asked(cls, arguments: Sequence[str]) -> Sweep:
        """What a command line with `-m` asks for, by its `run_dir=`."""
        given = [a.removeprefix("run_dir=") for a in arguments if a.startswith("run_dir=")]
        folder = given[-1] if given else f"runs/sweep-{datetime.now():%Y%m%d-%H%M%S}"
        return cls(Path(folder), tuple(arguments))

    @property
    def file(self) -> Path:
        return self.folder / "sweep.jsonl"

    def require_new(self) -> None:
        """Raise RunError if the folder holds a sweep already."""
        if self.file.exists():
            raise RunError(
                f"run_dir={self.folder} already holds a sweep, and its table ({self.file}): choose "
                "another folder"
            )

    def different(self, overrides: Sequence[str]) -> list[str]:
        """The settings that distinguish a run."""
        return [override for override in overrides if override not in self.command]

    def run_dir(self, number: int, overrides: Sequence[str]) -> Path:
        """The folder of a run, whose name needs no quotes on any command line."""
        name = re.sub(r"[^\w.+-]+", "_", "-".join([str(number), *self.different(overrides)]))
        return self.folder / name[:100]

    def alone(self, number: int, overrides: Sequence[str]) -> list[str]:
        """The arguments that make a run without the others."""
        own = [override for override in overrides if not override.startswith("run_dir=")]
        return [*own, f"run_dir={self.run_dir(number, overrides)}"]

    def run(
        self, number: int, overrides: Sequence[str], train: Callable[[], object]
    ) -> object | None:
        """Train one of the runs. A mistake in its settings is said, and the others go on.

        Returns:
            What `train` returns; None if it failed.

        Raises:
            UserError: a signal stopped it, and so the sweep.
        """
        row: dict[str, Any] = {"run": number, "settings": self.different(overrides)}
        what = " ".join(row["settings"])
        print(f"\nrun {number}: {what}", flush=True)
        score = None
        given, sys.argv[1:] = sys.argv[1:], self.alone(number, overrides)  # what the run notes
        try:
            score = row["best_val_bleu"] = train()
        except UserError as error:
            if error.exit_code > SIGNALLED:
                raise
            row["error"] = str(error)
            print(f"error: run {number} ({what}): {error}", file=sys.stderr, flush=True)
        finally:
            sys.argv[1:] = given
        with self.file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
        return score

    def rows(self) -> list[dict[str, Any]]:
        """What has ended so far, the best first."""
        if not self.file.exists():
            return []
        lines = self.file.read_text(encoding="utf-8").splitlines()
        return sorted(map(json.loads, lines), key=lambda row: -row.get("best_val_bleu", -1.0))

    def failed(self) -> int:
        """How many runs failed."""
        return sum("error" in row for row in self.rows())

    def report(self) -> None:
        """Print the runs, and why some failed: a launcher may have hidden what those said."""
        rows = self.rows()
        if not rows:
            return
        print("\nrun  best BLEU  settings")
        for row in rows:
            bleu = f"{row['best_val_bleu']:9.2f}" if "best_val_bleu" in row else "   failed"
            print(f"{row['run']:3}  {bleu}  {' '.join(row['settings'])}")
        for row in rows:
            if "error" in row:
                print(f"run {row['run']} failed: {row['error']}")
        print(f"results in {self.folder}", flush=True)
