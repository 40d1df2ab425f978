"""Several runs of one command (`-m`), started by Hydra's sweepers and launchers.

<sweep>/0-model.dropout_0.1/   a run
<sweep>/1-model.dropout_0.3/   another
<sweep>/sweep.jsonl            a line for each run that has ended: settings, best BLEU or error
"""

from __future__ import annotations

import json
import logging
import re
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import DictConfig, OmegaConf

from seq2seq.cli.exits import fail, run_command
from seq2seq.errors import ConfigError, RunError, UserError

Job = Callable[[DictConfig, list[str]], object]  # takes settings, and overrides of the defaults
SIGNALLED = 128  # higher exit codes: stopped by a signal


@dataclass(frozen=True)
class Sweep:
    """The runs of one command, in one folder."""

    folder: Path
    command: tuple[str, ...]  # as given; further overrides of a run make it different

    @property
    def file(self) -> Path:
        return self.folder / "sweep.jsonl"

    def train(self, main: Callable[[Callable[[DictConfig], object]], Any], job: Job) -> None:
        """Train all runs by `job`; Hydra's launcher and sweeper start them through `main`."""
        require_folder(self.folder)
        if self.file.exists():
            raise RunError(f"run_dir={self.folder} already holds a sweep: choose another folder")

        def one(config: DictConfig) -> object:
            logging.getLogger("hydra").setLevel(logging.WARNING)  # it would list all settings
            config.logger.group = config.logger.group or self.folder.name
            hydra = HydraConfig.get()
            overrides: Any = OmegaConf.to_container(hydra.overrides.task)  # unresolved
            return run_command(lambda: self.run(hydra.job.num, config, overrides, job))

        given = sys.argv[1:]
        sys.argv[1:] = ["-m", *self.command, f"hydra.sweep.dir='{self.folder}'"]
        try:
            main(one)()
        except Exception as error:
            if isinstance(error, UserError) or not self.failures():
                raise  # else all runs may have failed, and Optuna finds no best one
        finally:
            sys.argv[1:] = given
        print(f"\nresults in {self.folder}; to compare them: seq2seq compare {self.folder}/*/")
        if failures := self.failures():  # a launcher may have hidden them
            fail("\n".join([f"{len(failures)} of the runs failed", *failures]), 1)

    def run(self, number: int, config: DictConfig, overrides: list[str], job: Job) -> object:
        """Train one of the runs; return what the job returns, or None if it failed.

        A user error is noted, and the other runs continue; a signal stops them all.
        """
        # Hydra writes values in its own way, such as 0.003 for 3e-3, so compare by names.
        parsed = OverridesParser.create().parse_overrides([*self.command])
        typed = zip(self.command, parsed, strict=True)
        differs = {_name(text): one.is_sweep_override() for text, one in typed}  # the last counts
        settings = [one for one in overrides if differs.get(_name(one), True)]
        row: dict[str, Any] = {"run": number, "settings": settings}
        # A name that needs no quotes on any command line.
        name = re.sub(r"[^\w.+-]+", "_", "-".join([str(number), *settings]))[:100]
        config.run_dir = str(self.folder / name)
        print(f"\nrun {number}: {' '.join(settings)}", flush=True)
        # The run notes the command for itself, not that of the sweep.
        own = [one for one in overrides if not one.startswith("run_dir=")]
        given, sys.argv[1:] = sys.argv[1:], [*own, f"run_dir={config.run_dir}"]
        try:
            if config.trainer.devices * config.trainer.num_nodes > 1:
                why = "-m trains each run in one process: leave trainer.devices out"
                raise ConfigError(f"{why}, or start the runs one by one with torchrun")
            row["best_val_bleu"] = job(config, overrides)
        except UserError as error:
            if error.exit_code > SIGNALLED:
                raise
            row["error"] = str(error)
            print(f"run {number} failed: {error}", file=sys.stderr, flush=True)
        finally:
            sys.argv[1:] = given
        with self.file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
        return row.get("best_val_bleu")

    def failures(self) -> list[str]:
        """Return what went wrong in each run that failed."""
        lines = self.file.read_text(encoding="utf-8").splitlines() if self.file.exists() else []
        rows = [row for row in map(json.loads, lines) if "error" in row]
        return [f"run {row['run']} ({' '.join(row['settings'])}): {row['error']}" for row in rows]


def _name(override: str) -> str:
    return override.lstrip("+").partition("=")[0]


def require_folder(folder: Path) -> None:
    """Raise RunError if a run's folder could not be made or written to; leave nothing there."""
    there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    try:
        tempfile.TemporaryFile(dir=there).close()
    except OSError as error:
        why = f"cannot write to the run's folder {folder}: {error.strerror}"
        raise RunError(f"{why}. Choose another: run_dir=FOLDER") from error
