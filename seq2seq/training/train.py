"""A training run from settings to a finished folder (see `run_folder.py`), from top to bottom."""

from __future__ import annotations

import json
import logging
import math
import shlex
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch
from lightning.fabric import Fabric
from torch import nn

from seq2seq.bundle.bundle import Bundle
from seq2seq.config import TrainConfig
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
from seq2seq.training.checkpointing import (
    Checkpoint,
    SaveTimer,
    check_settings,
    newest_checkpoint,
    read_checkpoint,
)
from seq2seq.training.distributed import check_processes, make_fabric, process_rank
from seq2seq.training.dry_run import announce, count_parameters, dry_run, scored_pairs
from seq2seq.training.fine_tuning import initial_bundle
from seq2seq.training.hardware import (
    choose_accelerator,
    choose_precision,
    claim_device,
    describe_attention,
    describe_device,
    plain_memory_errors,
    set_up_process,
)
from seq2seq.training.lengths import in_steps
from seq2seq.training.loss_spikes import SkippedSteps
from seq2seq.training.run_folder import (
    LogFile,
    Run,
    begin_run,
    forget_empty_run,
    locked,
    open_run,
    plain_disk_errors,
    plain_settings,
    require_unfinished,
    write_settings,
)
from seq2seq.training.trainer import Trainer, make_trainer
from seq2seq.training.validation import Validation

log = logging.getLogger(__name__)


def train(config: TrainConfig) -> float:
    """Run `scripts/train.py`; returns the best validation BLEU, which a sweep can maximise.

    Raises:
        UserError: something the user gave cannot be used.
        Interrupted: a signal stopped it; its state is saved.
    """
    t, first = config.trainer, process_rank() == 0
    accelerator = choose_accelerator(t)
    claim_device(accelerator)
    precision, why = choose_precision(t, accelerator, config.model, config.data)
    check_processes(t, precision)
    require_package(config.logger)
    set_up_process(accelerator, first)

    folder, settings = open_run(config), plain_settings(config)
    writes = first and not config.dry_run
    with ExitStack() as open_files:
        if writes:
            open_files.enter_context(locked(folder))
            if not config.resume:
                begin_run(config, folder)
            open_files.enter_context(LogFile(folder / "train.log"))
        with forget_empty_run(folder, new=writes and not config.resume):
            if writes and config.resume:
                make_up_for_report(folder)
            checkpoint = find_checkpoint(config, folder, settings)
            bundle = initial_bundle(config) if config.init_from and checkpoint is None else None
            torch.manual_seed(config.seed)
            data = open_data(config, known_vocabularies(config, folder, bundle))
            if first:
                draw_data(data.prepared.folder)
            config_in_steps = in_steps(config, data)
            if checkpoint is not None:
                require_unfinished(folder, checkpoint, config_in_steps.trainer)

        model = make_model(config, data, bundle, whole=first or t.strategy != "fsdp")
        attention = describe_attention(config.model, accelerator, precision)
        numbers = f"{precision} ({why})" if why else precision
        device = f"{describe_device(accelerator)}, {numbers}; attention: {attention}"
        if first:
            announce(config_in_steps, folder, data, model, device)
        if config.dry_run:
            if first:
                dry_run(config_in_steps, data, model, accelerator, precision)
            return math.nan
        shown = dict[str, Any]()  # beside the curves
        if first:
            origin = note_beginning(config, folder, data, model, device)
            shown = {**settings, "run": origin.facts(attention)}
        fabric = make_fabric(accelerator, precision, t.devices, t.num_nodes, t.strategy)
        fabric.launch()
        run = Run(folder, settings, precision)
        return fit(config_in_steps, run, fabric, model, data, checkpoint, shown)


def fit(
    config: TrainConfig,
    run: Run,
    fabric: Fabric,
    model: TranslationModel,
    data: TranslationData,
    checkpoint: Checkpoint | None,
    shown: dict[str, Any],
) -> float:
    """Train a model to the end of its run; returns the best validation BLEU.

    Args:
        config: its lengths in steps.
        fabric: launched.
        data: prepared.
        checkpoint: to go on from.
        shown: what trackers show of the run beside its curves.
    """
    first, trackers = run.processes.rank == 0, list[Tracker]()
    if first:
        content = {"step": 0, "validated": True} if checkpoint is None else checkpoint.content
        place = int(content["step"]), bool(content["validated"])
        trackers = make_trackers(config.logger, run.folder, shown, *place)
        corpus = lineage.dataset(data.prepared.report)
        for tracker in trackers:
            tracker.log_artifact("dataset", lambda: corpus, used=True)
    validation, saving = make_validation(config, run, data, checkpoint), config.checkpoint
    trainer = make_trainer(
        config,
        model,
        fabric,
        run,
        validation=validation,
        skipped_steps=SkippedSteps(run, config.trainer, data),
        save_timer=SaveTimer(saving.every_n_steps, saving.every_minutes),
        callbacks=make_callbacks(config, run, data, validation),
        trackers=trackers,
    )
    started = time.monotonic()
    with plain_disk_errors(run.folder), plain_memory_errors(config, trainer):
        trainer.fit(data, checkpoint)
    if first:
        finish(config, trainer, validation, time.monotonic() - started)
    return max(validation.best, validation.average)


def find_checkpoint(
    config: TrainConfig, folder: Path, settings: dict[str, Any]
) -> Checkpoint | None:
    """Read the newest checkpoint of a run that goes on; None if there is none.

    Raises:
        RunError: all checkpoints are damaged, or made with other settings.
    """
    path = newest_checkpoint(folder) if config.resume else None
    if path is None:
        return None
    checkpoint = read_checkpoint(path)
    check_settings(path, checkpoint.content["settings"], settings)
    return checkpoint


def known_vocabularies(
    config: TrainConfig, folder: Path, bundle: Bundle | None
) -> Vocabularies | None:
    """The vocabularies of a bundle, or of a run that goes on; None = they are still to be made.

    A run that was killed early may have none yet, or one of two.
    """
    if bundle is not None:
        return bundle.vocabularies
    return Vocabularies.load(folder) if config.resume and not missing_files(folder) else None


def open_data(config: TrainConfig, vocabularies: Vocabularies | None = None) -> TranslationData:
    """The data of a run, prepared; `vocabularies` are those to use, if there are any yet."""
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
    """Write the page of prepared data, if there is none; training goes on without it."""
    if (folder / "report.html").exists():
        return
    from seq2seq.report.data import write_page  # matplotlib takes a second to load

    try:
        write_page(folder)
    except OSError as error:  # the folder may be someone else's
        log.warning("the page of the prepared data was not written: %s", error)


def make_model(
    config: TrainConfig, data: TranslationData, bundle: Bundle | None, whole: bool
) -> TranslationModel:
    """The model, with new weights or those of a bundle; unless `whole`, without memory for them."""
    torch.manual_seed(config.seed)
    with torch.device("cpu" if whole else "meta"):
        model = build_model(config.model, *data.vocabularies.sizes)
    if bundle is not None and whole:
        model.load_state_dict(bundle.model.state_dict())
    return model


def note_beginning(
    config: TrainConfig, folder: Path, data: TranslationData, model: nn.Module, device: str
) -> Provenance:
    """Write settings, vocabulary and provenance; from now on they are those of the run."""
    with plain_disk_errors(folder):
        write_settings(config, folder)
        data.vocabularies.save(folder)
        for name in ("summary.json", "report.html"):  # a run that goes on is unfinished
            (folder / name).unlink(missing_ok=True)
        processes = config.trainer.devices * config.trainer.num_nodes
        parameters, report = count_parameters(model), data.prepared.report
        return note_start(folder, parameters, device, processes, report)


def make_validation(
    config: TrainConfig, run: Run, data: TranslationData, checkpoint: Checkpoint | None
) -> Validation:
    """What scores the model, keeps the best bundle, and averages at the end."""
    count, by = config.checkpoint.average, config.checkpoint.average_by
    scored = scored_pairs(config.trainer, len(data.val_pairs))
    if checkpoint is not None:  # on the same pairs as before, whose scores are compared
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
    """What watches the run; each stands behind those whose figures it takes."""
    samples = Samples(run.folder, config.logger.samples, validation)
    callbacks: list[Callback] = [
        Throughput(),
        Progress(validation),
        samples,
    ]
    if config.trainer.profile and run.processes.rank == 0:
        callbacks.append(Profile(run.folder / "profile"))
    norms = GradientNorms()  # which forgets its figures at the end of a validation
    media = Media(samples, norms, data.prepared.folder / "report.html")
    return [*callbacks, media, norms, Findings(samples, data.prepared.report)]


def finish(config: TrainConfig, trainer: Trainer, validation: Validation, seconds: float) -> None:
    """Tell the trackers, write `<run>/summary.json` and the report, and say what to do next.

    With its summary a run is finished: one that was killed before goes on with its end.
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
    with plain_disk_errors(run_dir):
        replace_text(run_dir / "summary.json", json.dumps(summary, indent=2) + "\n")
    averaged = validation.average > validation.best
    corpus = [f"data={config.data.name}"]
    if config.data.path is not None:
        corpus.append(f"data.path={config.data.path}")
    log.info(
        "finished after %.0f s: best validation BLEU %.2f %s\n"
        "evaluate    %s\ntranslate   %s",
        *(seconds, best, "of an average" if averaged else f"at step {validation.best_step}"),
        command_line("evaluate", f"bundle={run_dir}", *corpus),
        shlex.join(["translate", "--model", str(run_dir), "hello world"]),
    )
    write_run_report(run_dir)


def make_up_for_report(run_dir: Path) -> None:
    """Write the report of a finished run that was killed before it had one."""
    if (run_dir / "summary.json").exists() and not (run_dir / "report.html").exists():
        write_run_report(run_dir)


def write_run_report(run_dir: Path) -> None:
    """Write `<run>/report.html`; whatever is wrong with it, the run is finished."""
    from seq2seq.report.page import try_report  # matplotlib takes a second to load

    try_report(run_dir)
