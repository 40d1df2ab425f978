"""What a run says of itself at its start and at its end."""

from __future__ import annotations

import json
import logging
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from torch import nn

from seq2seq.callbacks.validation import Validation
from seq2seq.config import TrainConfig
from seq2seq.data.datamodule import TranslationData
from seq2seq.disk import replace_text
from seq2seq.training.hardware import describe_attention, describe_device, explain_precision
from seq2seq.training.run_folder import plain_disk_errors

if TYPE_CHECKING:
    from seq2seq.training.trainer import Trainer

log = logging.getLogger(__name__)


def quiet_libraries() -> None:
    """Keep messages that tell our users nothing they can act on."""
    for name in ("lightning.fabric", "lightning.pytorch"):  # the second logs for the first, too
        logging.getLogger(name).setLevel(logging.WARNING)
    warnings.filterwarnings("ignore", message=".*LeafSpec.*")
    # What fp16 does when its first steps overflow; the schedule goes on with the data.
    warnings.filterwarnings("ignore", message=".*lr_scheduler.step.. before .optimizer.step.*")


def count_parameters(model: nn.Module) -> int:
    """Trained numbers, shared ones once."""
    return sum(parameter.numel() for parameter in model.parameters())


def describe(config: TrainConfig, accelerator: str, precision: str) -> str:
    """Device, precision and attention kernels in words."""
    why = explain_precision(config.trainer.precision, precision, accelerator)
    attention = describe_attention(config.model, accelerator, precision)
    numbers = f"{precision} ({why})" if why else precision
    return f"{describe_device(accelerator)}, {numbers}; attention: {attention}"


def announce(
    config: TrainConfig, run_dir: Path, data: TranslationData, model: nn.Module, device: str
) -> None:
    """Log what will be trained on what."""
    sizes = " and ".join(f"{size:,}" for size in dict.fromkeys(data.vocabularies.sizes))
    t = config.trainer
    processes, final = t.devices * t.num_nodes, config.data.final_steps
    lines = [
        f"data        {config.data.name}: {data.summary()}, {sizes} subwords",
        *([f"prepared    {data.prepared.folder / 'report.html'}"] if data.prepared else []),
        f"model       {config.model.name}: {count_parameters(model):,} parameters; "
        f"{config.model.summary()}",
        *([f"weights     of {config.init_from}"] if config.init_from else []),
        f"device      {device}",
        f"steps       {t.max_steps:,} of {config.data.max_tokens:,} tokens, both sides together"
        + (f" x {t.accumulate} batches" if t.accumulate > 1 else "")
        + (f" x {processes} processes" if processes > 1 else ""),
        *([f"last steps  {final:,} of them with data.final_weights"] if final else []),
        *([] if config.dry_run else [f"results in  {run_dir}"]),
    ]
    if config.data.name == "starter":
        lines.append(
            "real data   this is the built-in starter corpus; to train on your own text: "
            "data=files data.path=FOLDER (holding train, val and test files)"
        )
    log.info("\n".join(lines))


def finish(
    config: TrainConfig, run_dir: Path, trainer: Trainer, validation: Validation, seconds: float
) -> None:
    """Write `<run>/summary.json` and the report, tell the trackers, and say what to do next."""
    best = max(validation.best, validation.average)
    summary = {
        "steps": trainer.step,
        "stopped_early": trainer.step < config.trainer.max_steps,
        "best_step": validation.best_step,
        "best_val_bleu": round(best, 4),
        **({"average": validation.summary} if validation.summary else {}),
        "seconds": round(seconds, 1),
    }
    with plain_disk_errors(run_dir):
        replace_text(run_dir / "summary.json", json.dumps(summary, indent=2) + "\n")
    averaged = validation.average > validation.best
    corpus = f"data={config.data.name}"
    if config.data.path is not None:
        corpus += f" data.path={config.data.path}"
    log.info(
        "finished after %.0f s: best validation BLEU %.2f %s\n"
        "evaluate    python scripts/evaluate.py model=%s %s\n"
        'translate   translate --model %s "hello world"',
        *(seconds, best, "of an average" if averaged else f"at step {validation.best_step}"),
        *(run_dir, corpus, run_dir),
    )
    write_run_report(run_dir)
    for tracker in trainer.trackers:
        tracker.finish(summary, run_dir / "bundle" if config.logger.upload_bundle else None)


def make_up_for_report(run_dir: Path) -> None:
    """Write the report of a finished run that was killed before it had one."""
    if (run_dir / "summary.json").exists() and not (run_dir / "report.html").exists():
        write_run_report(run_dir)


def write_run_report(run_dir: Path) -> None:
    """Write `<run>/report.html`; whatever is wrong with it, the run is finished."""
    from seq2seq.report.page import write_report

    try:
        write_report([run_dir], run_dir / "report.html")
        log.info("look        %s", run_dir / "report.html")
    except Exception as error:
        log.warning(
            "the run is whole, but its report was not written: %s. To try again: "
            "python scripts/report.py %s",
            *(error or type(error).__name__, run_dir),
        )
