"""Several runs of one command (`-m`): a folder for each, and a table of what came out.

<sweep>/0-model.dropout_0.1/   a run
<sweep>/1-model.dropout_0.3/   another
<sweep>/sweep.jsonl            a line for each that has ended: settings, best BLEU or error
"""

from __future__ import annotations

import json
import logging
import re
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig

from seq2seq.cli.exits import fail, run_command
from seq2seq.errors import ConfigError, RunError, UserError

Job = Callable[[DictConfig, list[str]], object]  # of settings, and what overrides the defaults
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

    def train(self, compose: Callable[[Job], None], job: Job) -> None:
        """Train all runs, as Hydra's launcher and sweeper start them.

        Args:
            compose: lets Hydra call a job with the settings of each run.
            job: trains one.

        Raises:
            UserError: they have no folder, or a signal stopped them.
        """
        require_folder(self.folder)
        self.require_new()

        def one(config: DictConfig, overrides: list[str]) -> object:
            number = HydraConfig.get().job.num
            logging.getLogger("hydra").setLevel(logging.WARNING)  # it would list all settings
            config.run_dir = str(self.run_dir(number, overrides))
            config.logger.group = config.logger.group or self.folder.name

            def train() -> object:
                _require_one_process(config.trainer.devices, config.trainer.num_nodes)
                return job(config, overrides)

            return run_command(lambda: self.run(number, overrides, train))

        sys.argv.append(f"hydra.sweep.dir='{self.folder}'")
        try:
            compose(one)
        except Exception as error:
            if isinstance(error, UserError) or not self.failed():
                raise  # but Optuna finds no best run if all failed
        finally:
            self.report()
        if self.failed():
            fail(f"{self.failed()} of the runs failed", 1)

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


def _require_one_process(devices: int, nodes: int) -> None:
    """Raise ConfigError if a run needs processes beside the one that a sweep gives it."""
    if devices * nodes > 1:
        raise ConfigError(
            [
                f"-m trains each run in one process, and trainer.devices={devices} x "
                f"trainer.num_nodes={nodes} asks for {devices * nodes}: leave them out, or start "
                "the runs one by one with torchrun"
            ]
        )


def require_folder(folder: Path) -> None:
    """Raise RunError if a run's folder could not be made or written to; nothing is left there."""
    there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    try:
        tempfile.TemporaryFile(dir=there).close()
    except OSError as error:
        raise RunError(
            f"cannot write to the run's folder {folder}: {error.strerror}. Choose another: "
            "run_dir=FOLDER"
        ) from error
