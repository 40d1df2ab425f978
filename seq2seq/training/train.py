"""A training run, from top to bottom: from settings to a finished folder (see `run_folder.py`)."""

from __future__ import annotations

import json
import logging
import math
import shlex
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
from lightning.fabric import Fabric
from torch import nn

from seq2seq.bundle.bundle import Bundle
from seq2seq.config import DataConfig, TrainConfig
from seq2seq.data.datamodule import TranslationData
from seq2seq.data.vocabularies import Vocabularies, missing_files
from seq2seq.errors import command_line
from seq2seq.files import replace_text
from seq2seq.model.build import build_model
from seq2seq.model.translation_model import TranslationModel
from seq2seq.provenance import Provenance, note_start
from seq2seq.trackers import Tracker, lineage, make_trackers, require_package
from seq2seq.training.averaging import Snapshots
from seq2seq.training.callbacks import Callback
from seq2seq.training.callbacks.findings import Findings
from seq2seq.training.callbacks.gradient_norms import GradientNorms
from seq2seq.training.callbacks.media import Media
from seq2seq.training.callbacks.profile import Profile
from seq2seq.training.callbacks.progress import Progress
from seq2seq.training.callbacks.samples import Samples
from seq2seq.training.callbacks.throughput import Throughput
from seq2seq.training.checkpointing import Checkpoint, find_checkpoint
from seq2seq.training.distributed import check_processes, make_fabric, process_rank
from seq2seq.training.dry_run import announce, count_parameters, dry_run, scored_pairs
from seq2seq.training.failures import plain_failures
from seq2seq.training.fine_tuning import initial_bundle
from seq2seq.training.hardware import (
    choose_accelerator,
    choose_training_precision,
    claim_device,
    describe_attention,
    describe_device,
    set_up_process,
)
from seq2seq.training.lengths import in_steps
from seq2seq.training.loss_spikes import SkippedSteps
from seq2seq.training.run_folder import (
    Run,
    opened,
    plain_settings,
    require_unfinished,
    run_folder,
    write_settings,
)
from seq2seq.training.trainer import Trainer
from seq2seq.training.validation import Validation

log = logging.getLogger(__name__)


def train(config: TrainConfig) -> float:
    """Run `scripts/train.py`; return the best validation BLEU, which a sweep can maximise.

    Raises:
        UserError: settings or files of the user cannot be used, or the machine failed.
        Interrupted: a signal stopped the run; its state is saved.
    """
    t, first = config.trainer, process_rank() == 0
    accelerator = choose_accelerator(t)
    claim_device(accelerator)
    precision, why = choose_training_precision(t, accelerator, config.model, config.data)
    precision_note = f"{precision} ({why})" if why else precision
    check_processes(t, precision)
    require_package(config.logger)
    set_up_process(accelerator, first)

    folder, settings = run_folder(config), plain_settings(config)
    locks = first and not config.dry_run  # one process locks and writes the folder for all
    with plain_failures(folder), opened(folder, config) if locks else nullcontext():
        if locks and config.resume:
            make_up_for_report(folder)
        checkpoint = find_checkpoint(folder, settings) if config.resume else None
        bundle = initial_bundle(config) if config.init_from and checkpoint is None else None
        torch.manual_seed(config.seed)
        data = open_data(config, known_vocabularies(config, folder, bundle))
        given, config = config, in_steps(config, data)  # config.yaml keeps lengths as given
        if checkpoint is not None:
            require_unfinished(folder, checkpoint, config.trainer)

        model = make_model(config, data, bundle, whole=first or t.strategy != "fsdp")
        device, facts = "", dict[str, Any]()  # in words; only the first process reports them
        if first:
            attention = describe_attention(config.model, accelerator, precision)
            device = f"{describe_device(accelerator)}, {precision_note}; attention: {attention}"
            draw_data(data.prepared.folder)
            announce(config, folder, data, model, device)
            if config.dry_run:
                dry_run(config, data, model, accelerator, precision)
            else:
                facts = note_beginning(given, folder, data, model, device).facts(attention)
        if config.dry_run:
            return math.nan
        fabric = make_fabric(accelerator, precision, t.devices, t.num_nodes, t.strategy)
        fabric.launch()
        run = Run(folder, settings, precision, device)
        return fit(config, run, fabric, model, data, checkpoint, facts)


def fit(
    config: TrainConfig,
    run: Run,
    fabric: Fabric,
    model: TranslationModel,
    data: TranslationData,
    checkpoint: Checkpoint | None,
    facts: dict[str, Any],
) -> float:
    """Train a model to the end of its run; return the best validation BLEU.

    Args:
        config: with lengths in steps.
        fabric: launched.
        data: prepared.
        checkpoint: the state to resume from; None = a new run.
        facts: about the run; trackers show them beside settings and curves.
    """
    first, trackers = run.processes.rank == 0, list[Tracker]()
    if first:
        step, validated = 0, True
        if checkpoint is not None:
            step, validated = checkpoint.content["step"], checkpoint.content["validated"]
        shown = {**run.settings, "run": facts}
        trackers = make_trackers(config.logger, run.folder, shown, step=step, validated=validated)
        corpus = lineage.dataset(data.prepared.report)
        for tracker in trackers:
            tracker.log_artifact("dataset", lambda: corpus, used=True)
    validation = make_validation(config, run, data, checkpoint)
    trainer = Trainer(
        fabric,
        model,
        run,
        config.trainer,
        optim=config.optim,
        max_tokens=config.data.max_tokens,
        seed=config.seed,
        callbacks=make_callbacks(config, run, data, validation),
        trackers=trackers,
    )
    skipped_steps = SkippedSteps(run, config.trainer, data)
    started = time.monotonic()
    with plain_failures(run.folder, trainer):
        trainer.fit(data, validation, config.checkpoint, skipped_steps, checkpoint)
    if first:
        finish(config, trainer, validation, time.monotonic() - started)
    return max(validation.best, validation.average)


def known_vocabularies(
    config: TrainConfig, folder: Path, bundle: Bundle | None
) -> Vocabularies | None:
    """Return the vocabularies of a bundle or of a resumed run; None = they are yet to be made.

    A run that was killed early may have no vocabulary yet, or only one of two.
    """
    if bundle is not None:
        return bundle.vocabularies
    return Vocabularies.load(folder) if config.resume and not missing_files(folder) else None


def open_data(config: TrainConfig, vocabularies: Vocabularies | None = None) -> TranslationData:
    """Prepare the data of a run, with `vocabularies` if there are any yet."""
    data = TranslationData(
        config.data,
        config.cleaning,
        config.tokenizer,
        config.model.max_length,
        config.seed,
        train_pairs=config.trainer.train_pairs,
        val_pairs=config.trainer.val_pairs,
        val_on_train=config.trainer.val_on_train,
    )
    data.prepare(vocabularies)
    return data


def draw_data(folder: Path) -> None:
    """Write the report of the prepared data if it is missing; if that fails, only warn."""
    if (folder / "report.html").exists():
        return
    from seq2seq.report.data import write_page  # matplotlib takes a second to load

    try:
        write_page(folder)
    except OSError as error:  # the folder may belong to another user
        log.warning("the page of the prepared data was not written: %s", error)


def make_model(
    config: TrainConfig, data: TranslationData, bundle: Bundle | None, whole: bool
) -> TranslationModel:
    """Build the model with new or a bundle's weights; unless `whole`, without memory for them."""
    torch.manual_seed(config.seed)
    with torch.device("cpu" if whole else "meta"):
        model = build_model(config.model, *data.vocabularies.sizes)
    if bundle is not None and whole:
        model.load_state_dict(bundle.model.state_dict())
    return model


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


def make_validation(
    config: TrainConfig, run: Run, data: TranslationData, checkpoint: Checkpoint | None
) -> Validation:
    """Make the validation: it scores the model, keeps the best bundle, averages at the end."""
    count, by = config.checkpoint.average, config.checkpoint.average_by
    scored = scored_pairs(config.trainer, len(data.val_pairs))
    if checkpoint is not None:  # score the same pairs as before, to compare scores
        before = checkpoint.content["callbacks"].get("Validation", {})
        scored = before.get("pairs", len(data.val_pairs))
    return Validation(
        run,
        data.val_pairs[:scored],
        data.vocabularies,
        config.decode,
        normalise=config.cleaning.steps(0),
        patience=config.trainer.patience,
        length_ratio=data.length_ratio,
        snapshots=Snapshots(run.folder, run.processes, count, by) if count else None,
    )


def make_callbacks(
    config: TrainConfig, run: Run, data: TranslationData, validation: Validation
) -> list[Callback]:
    """Make the callbacks of a run; each comes after those whose figures it uses."""
    throughput, norms = Throughput(), GradientNorms()
    if run.processes.rank != 0:
        return [throughput, norms]  # these gather figures of all processes
    samples = Samples(run.folder, config.logger.samples, validation)
    return [
        throughput,
        Progress(validation),
        samples,
        *([Profile(run.folder / "profile")] if config.trainer.profile else []),
        Media(samples, norms, data.prepared.folder / "report.html"),
        norms,  # after Media: norms forget their figures at the end of a validation
        Findings(samples, data.prepared.report),
    ]


def finish(config: TrainConfig, trainer: Trainer, validation: Validation, seconds: float) -> None:
    """Finish the trackers, write `<run>/summary.json` and the report, and log the next commands.

    A run with a summary is finished. If a run is killed before that, resuming repeats this ending.
    """
    run_dir, best = trainer.run.folder, max(validation.best, validation.average)
    summary = {
        "steps": trainer.step,
        "stopped_early": trainer.step < config.trainer.max_steps,
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
        command_line("evaluate", f"bundle={run_dir}", *settings_of_corpus(config.data)),
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
