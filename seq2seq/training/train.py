"""A training run, from top to bottom: from settings to a finished folder (see `run_folder.py`)."""

from __future__ import annotations

import math
import os
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch

from seq2seq.bundle.bundle import Bundle
from seq2seq.config import ModelConfig, TrainConfig
from seq2seq.data.datamodule import TranslationData
from seq2seq.data.vocabularies import Vocabularies
from seq2seq.errors import RunError
from seq2seq.model.build import build_model
from seq2seq.model.translation_model import TranslationModel
from seq2seq.trackers import lineage, make_trackers, require_package
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
from seq2seq.training.dry_run import dry_run
from seq2seq.training.failures import plain_failures
from seq2seq.training.fine_tuning import initial_bundle
from seq2seq.training.hardware import (
    choose_accelerator,
    choose_training_precision,
    claim_device,
    describe_attention,
    describe_device,
    set_up_process,
    with_length_multiple,
)
from seq2seq.training.lengths import in_steps
from seq2seq.training.run_folder import Run, opened, plain_settings, require_unfinished, run_folder
from seq2seq.training.run_notes import (
    announce,
    draw_data,
    finish,
    make_up_for_report,
    note_beginning,
)
from seq2seq.training.stopping import ending_together
from seq2seq.training.trainer import Trainer
from seq2seq.training.validation import Validation, scored_pairs


def train(config: TrainConfig) -> float:
    """Run `scripts/train.py`; return the best validation BLEU, which a sweep can maximise.

    Raises:
        UserError: settings or files of the user cannot be used, or the machine failed.
        Interrupted: a signal stopped the run; its state is saved.
    """
    t, first = config.trainer, process_rank() == 0
    accelerator = choose_accelerator(t)
    claim_device(accelerator)
    config = with_length_multiple(config, accelerator)
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
        vocabularies = None if bundle is None else bundle.vocabularies
        if checkpoint is not None:
            vocabularies = Vocabularies.load(folder)
        data = open_data(config, vocabularies)
        given, config = config, in_steps(config, data)  # config.yaml keeps lengths as given
        t = config.trainer
        if checkpoint is not None:
            require_unfinished(folder, checkpoint, t)

        whole = first or t.strategy != "fsdp"
        model = make_model(config.model, data, bundle, seed=config.seed, whole=whole)
        device, facts = "", dict[str, Any]()  # in words; only the first process reports them
        if first:
            attention = describe_attention(config.model, accelerator, precision)
            device = f"{describe_device(accelerator)}, {precision_note}; attention: {attention}"
            draw_data(data.prepared.folder)
            announce(config, folder, data, model, device)
        if config.dry_run:
            if first:
                dry_run(make_trainer(config, model, accelerator, precision), data)
            return math.nan
        if first:
            facts = note_beginning(given, folder, data, model, device).facts(attention)
        trainer = make_trainer(
            config, model, accelerator, precision, folder=folder, settings=settings, device=device
        )
        return fit(config, trainer, data, checkpoint, facts)


def make_trainer(
    config: TrainConfig,
    model: TranslationModel,
    accelerator: str,
    precision: str,
    *,
    folder: Path | None = None,
    settings: dict[str, Any] | None = None,
    device: str = "",
) -> Trainer:
    """Start the processes of a run, and make the trainer in each.

    Args:
        config: with lengths in steps.
        folder: of the run; None = some steps are measured in one process, which writes nothing.
        settings, device: of the run, as `Run` has them.
    """
    t = config.trainer
    processes = () if folder is None else (t.devices, t.num_nodes, t.strategy)
    fabric = make_fabric(accelerator, precision, *processes)
    fabric.launch()
    run = Run(folder or Path(os.devnull), settings or {}, precision, device)
    max_tokens, seed = config.data.max_tokens, config.seed
    return Trainer(fabric, model, run, t, optim=config.optim, max_tokens=max_tokens, seed=seed)


def fit(
    config: TrainConfig,
    trainer: Trainer,
    data: TranslationData,
    checkpoint: Checkpoint | None,
    facts: dict[str, Any],
) -> float:
    """Train a model to the end of its run; return the best validation BLEU.

    Args:
        config: with lengths in steps.
        data: prepared.
        checkpoint: the state to resume from; None = a new run.
        facts: about the run; trackers show them beside settings and curves.
    """
    run = trainer.run
    if len({*run.processes.gather(config.data.length_multiple)}) > 1:
        raise RunError(
            "the processes have CPUs with and without bf16, and would make other batches: set "
            "data.length_multiple=1"
        )
    if first := run.processes.rank == 0:
        step, validated = 0, True
        if checkpoint is not None:
            step, validated = checkpoint.content["step"], checkpoint.content["validated"]
        shown = {**run.settings, "run": facts}
        trainer.trackers = make_trackers(
            config.logger, run.folder, shown, step=step, validated=validated
        )
        corpus = lineage.dataset(data.prepared.report)
        for tracker in trainer.trackers:
            tracker.log_artifact("dataset", lambda: corpus, used=True)
    scored = scored_pairs(config.trainer, len(data.val_pairs))
    if checkpoint is not None:  # score the same pairs as before, to compare scores
        scored = checkpoint.content["callbacks"]["Validation"].get("pairs", len(data.val_pairs))
    count, by = config.checkpoint.average, config.checkpoint.average_by
    validation = Validation(
        run,
        data.val_pairs[:scored],
        data.vocabularies,
        config.decode,
        normalise=config.cleaning.steps(0),
        patience=config.trainer.patience,
        length_ratio=data.length_ratio,
        snapshots=Snapshots(run.folder, run.processes, count, by) if count else None,
    )
    trainer.callbacks = make_callbacks(config, run, data, validation)
    started = time.monotonic()
    with plain_failures(run.folder, trainer), ending_together():
        trainer.fit(data, validation, config.checkpoint, checkpoint)
    if first:
        finish(trainer, validation, config.data, time.monotonic() - started)
    return max(validation.best, validation.average)


def make_callbacks(
    config: TrainConfig, run: Run, data: TranslationData, validation: Validation
) -> list[Callback]:
    """Make the callbacks of a run; each comes after those whose figures it uses."""
    throughput, norms = Throughput(), GradientNorms()
    if run.processes.rank != 0:
        return [throughput, norms]  # these gather figures of all processes
    translations = Samples(run.folder, config.logger.samples, validation)
    return [
        throughput,
        Progress(validation),
        translations,
        *([Profile(run.folder / "profile")] if config.trainer.profile else []),
        Media(translations, norms, data.prepared.folder / "report.html"),
        norms,  # after Media: norms forget their figures at the end of a validation
        Findings(translations, data.prepared.report),
    ]


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


def make_model(
    config: ModelConfig, data: TranslationData, bundle: Bundle | None, *, seed: int, whole: bool
) -> TranslationModel:
    """Build the model with new or a bundle's weights; unless `whole`, without memory for them."""
    torch.manual_seed(seed)
    with torch.device("cpu" if whole else "meta"):
        model = build_model(config, *data.vocabularies.sizes)
    if bundle is not None and whole:
        model.load_state_dict(bundle.model.state_dict())
    return model
