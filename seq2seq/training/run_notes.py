"""What a run logs and writes when it begins and when it ends."""

from __future__ import annotations

import json
import logging
import shlex
from pathlib import Path

from torch import nn

from seq2seq.config import DataConfig, TrainConfig
from seq2seq.data.datamodule import TranslationData
from seq2seq.data.sources import names_split, settings_of_corpus
from seq2seq.errors import command_line
from seq2seq.files import replace_text
from seq2seq.provenance import Provenance, note_start
from seq2seq.trackers import lineage
from seq2seq.training.run_folder import write_settings
from seq2seq.training.trainer import Trainer
from seq2seq.training.validation import Validation, scored_pairs

log = logging.getLogger(__name__)

# The beginning


def announce(
    config: TrainConfig, run_dir: Path, data: TranslationData, model: nn.Module, device: str
) -> None:
    """Log the data, the model, the device and the length of a run."""
    t, corpus, final = config.trainer, config.data, config.data.final_steps
    sizes = " and ".join(f"{size:,}" for size in dict.fromkeys(data.vocabularies.sizes))
    shares = ((t.accumulate, "batches"), (t.devices * t.num_nodes, "processes"))
    times = "".join(f" x {number} {what}" for number, what in shares if number > 1)
    pairs = len(data.val_pairs)
    scored = scored_pairs(t, pairs)
    lines = [
        (True, f"data        {corpus.name}: {data.summary()}, {sizes} subwords"),
        (True, f"prepared    {data.prepared.folder / 'report.html'}"),
        (True, f"model       {config.model.name}: {count_parameters(model):,} parameters; "
               f"{config.model.summary()}"),
        (config.init_from, f"weights     of {config.init_from}"),
        (True, f"device      {device}"),
        (True, f"steps       {t.max_steps:,} of {corpus.max_tokens:,} tokens, both sides together"
               f"{times}"),
        (final, f"last steps  {final or 0:,} of them with data.final_weights"),
        (not config.dry_run, f"results in  {run_dir}"),
        (corpus.name == "starter",
         "real data   this is the built-in starter corpus; to train on your own text: data=files "
         "data.path=FOLDER (holding train, val and test files)"),
        (scored < pairs,
         f"note        so short a run translates {scored} of the {pairs:,} sentences of its "
         f"validation set only: trainer.val_pairs={pairs} translates all"),
    ]  # fmt: skip
    log.info("\n".join(line for shown, line in lines if shown))


def count_parameters(model: nn.Module) -> int:
    """Count the numbers in all parameters; shared parameters count once."""
    return sum(parameter.numel() for parameter in model.parameters())


def draw_data(folder: Path) -> None:
    """Write the report of the prepared data if it is missing; if that fails, only warn."""
    if (folder / "report.html").exists():
        return
    from seq2seq.report.data import write_page  # matplotlib takes a second to load

    try:
        write_page(folder)
    except OSError as error:  # the folder may belong to another user
        log.warning("the page of the prepared data was not written: %s", error)


def note_beginning(
    config: TrainConfig, folder: Path, data: TranslationData, model: nn.Module, device: str
) -> Provenance:
    """Write settings, vocabularies and provenance into the run's folder; return the provenance."""
    write_settings(config, folder)
    data.vocabularies.save(folder)
    for name in ("summary.json", "report.html"):  # a resumed run is unfinished
        (folder / name).unlink(missing_ok=True)
    processes = config.trainer.devices * config.trainer.num_nodes
    return note_start(folder, count_parameters(model), device, processes, data.prepared.report)


# The end


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
    split = () if names_split(data, "test") else ("split=val",)
    log.info(
        "finished after %.0f s: best validation BLEU %.2f %s\nevaluate    %s\ntranslate   %s",
        *(seconds, best, "of an average" if averaged else f"at step {validation.best_step}"),
        command_line("evaluate", f"bundle={run_dir}", *settings_of_corpus(data), *split),
        shlex.join(["translate", "--model", str(run_dir), "hello world"]),
    )
    from seq2seq.report.page import try_report  # matplotlib takes a second to load

    try_report(run_dir)


def make_up_for_report(run_dir: Path) -> None:
    """Write the report of a finished run that was killed before it wrote its report."""
    if (run_dir / "summary.json").exists() and not (run_dir / "report.html").exists():
        from seq2seq.report.page import try_report

        try_report(run_dir)
