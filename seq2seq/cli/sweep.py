"""Several runs of one command (`-m`), started by Hydra's sweepers and launchers.

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

    def train(self, compose: Callable[[Job], None], job: Job) -> None:
        """Train all runs, as Hydra's launcher and sweeper start them.

        Args:
            compose: lets Hydra call a job with the settings of each run.
            job: trains one.

        Raises:
            UserError: they have no folder, or a signal stopped them.
        """
        require_folder(self.folder)
        if self.file.exists():
            raise RunError(
                f"run_dir={self.folder} already holds a sweep, and its table ({self.file}): choose "
                "another folder"
            )

        def one(config: DictConfig, overrides: list[str]) -> object:
            logging.getLogger("hydra").setLevel(logging.WARNING)  # it would list all settings
            config.logger.group = config.logger.group or self.folder.name
            number = HydraConfig.get().job.num
            return run_command(lambda: self.run(number, config, overrides, job))

        sys.argv.append(f"hydra.sweep.dir='{self.folder}'")
        try:
            compose(one)
        except Exception as error:
            if isinstance(error, UserError) or not self.failures():
                raise  # but Optuna finds no best run if all failed
        print(f"\nresults in {self.folder}; beside each other: seq2seq compare {self.folder}/*/")
        if failures := self.failures():  # which a launcher may have hidden
            fail("\n".join([f"{len(failures)} of the runs failed", *failures]), 1)

    def run(self, number: int, config: DictConfig, overrides: list[str], job: Job) -> object:
        """Train one of the runs. A mistake in its settings is noted, and the others go on.

        Returns:
            What the job returns; None if the run failed.

        Raises:
            UserError: a signal stopped it, and so the sweep.
        """
        row: dict[str, Any] = {"run": number}
        row["settings"] = [one for one in overrides if one not in self.command]
        # A name that needs no quotes on any command line.
        name = re.sub(r"[^\w.+-]+", "_", "-".join([str(number), *row["settings"]]))[:100]
        config.run_dir = str(self.folder / name)
        print(f"\nrun {number}: {' '.join(row['settings'])}", flush=True)
        given, score = sys.argv[1:], None
        # The command that the run notes is its own.
        own = [one for one in overrides if not one.startswith("run_dir=")]
        sys.argv[1:] = [*own, f"run_dir={config.run_dir}"]
        try:
            _require_one_process(config.trainer.devices, config.trainer.num_nodes)
            score = row["best_val_bleu"] = job(config, overrides)
        except UserError as error:
            if error.exit_code > SIGNALLED:
                raise
            row["error"] = str(error)
            print(f"run {number} failed: {error}", file=sys.stderr, flush=True)
        finally:
            sys.argv[1:] = given
        with self.file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
        return score

    def failures(self) -> list[str]:
        """What went wrong, run by run."""
        lines = self.file.read_text(encoding="utf-8").splitlines() if self.file.exists() else []
        rows = [row for row in map(json.loads, lines) if "error" in row]
        return [f"run {row['run']} ({' '.join(row['settings'])}): {row['error']}" for row in rows]


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
