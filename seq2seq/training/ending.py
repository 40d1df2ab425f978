"""The end of a run: its summary, its report, and what to do next."""

from __future__ import annotations

import json
import logging
import shlex
from pathlib import Path

from seq2seq.config import DataConfig
from seq2seq.errors import command_line
from seq2seq.files import replace_text
from seq2seq.trackers import lineage
from seq2seq.training.trainer import Trainer
from seq2seq.training.validation import Validation

log = logging.getLogger(__name__)


def finish(trainer: Trainer, validation: Validation, data: DataConfig, seconds: float) -> None:
    """Finish the trackers, write `<run>/summary.json` and the report, and log the next commands.

    A run with a summary is finished. If a run is killed before that, resuming repeats this ending.

    Args:
        data: settings of the corpus, which the next commands name.
        seconds: that this start of the run took.
    """
    run_dir, best = trainer.run.folder, max(validation.best, validation.average)
    summary = {
        "steps": trainer.step,
        "stopped_early": trainer.step < trainer.max_steps,
        "best_step": validation.best_step,
        "best_val_bleu": round(best, 4),
        **({"average": validation.summary} if validation.summary else {}),
        "seconds": round(seconds, 1),
    }
    for tracker in trainer.trackers:
        tracker.log_artifact("model", lambda: lineage.bundle(run_dir))
        tracker.finish(summary)
    replace_text(run_dir / "summary.json", json.dumps(summary, indent=2) + "\n")
    averaged = validation.average > validation.best
    log.info(
        "finished after %.0f s: best validation BLEU %.2f %s\nevaluate    %s\ntranslate   %s",
        *(seconds, best, "of an average" if averaged else f"at step {validation.best_step}"),
        command_line("evaluate", f"bundle={run_dir}", *settings_of_corpus(data)),
        shlex.join(["translate", "--model", str(run_dir), "hello world"]),
    )
    from seq2seq.report.page import try_report  # matplotlib takes a second to load

    try_report(run_dir)


def settings_of_corpus(data: DataConfig) -> list[str]:
    """Return the settings that name this corpus on a command line."""
    own = data.path is not None and not (data.members or data.urls or data.hub or data.sacrebleu)
    found = [f"data={'files' if own else data.name}"]
    if data.path is not None:
        found.append(f"data.path={data.path}")
    if own and data.name != "files":
        found.append(f"data.name={data.name}")
    return found


def make_up_for_report(run_dir: Path) -> None:
    """Write the report of a finished run that was killed before it wrote its report."""
    if (run_dir / "summary.json").exists() and not (run_dir / "report.html").exists():
        from seq2seq.report.page import try_report

        try_report(run_dir)
