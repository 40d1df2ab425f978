"""A training run from settings to a finished folder (see `run_folder.py`), from top to bottom."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import torch

from seq2seq.callbacks import Callback
from seq2seq.callbacks.gradient_norms import GradientNorms
from seq2seq.callbacks.profile import Profile
from seq2seq.callbacks.progress import Progress
from seq2seq.callbacks.samples import Samples
from seq2seq.callbacks.throughput import Throughput
from seq2seq.callbacks.validation import Validation
from seq2seq.callbacks.wandb import WandbMedia
from seq2seq.config import TrainConfig
from seq2seq.data.datamodule import TranslationData
from seq2seq.data.vocabularies import Vocabularies
from seq2seq.inference.bundle import Bundle
from seq2seq.malloc import keep_freed_memory
from seq2seq.model.build import build_model
from seq2seq.training.announcement import (
    announce,
    count_parameters,
    describe,
    finish,
    make_up_for_report,
    quiet_libraries,
)
from seq2seq.training.averaging import Snapshots
from seq2seq.training.checkpointing import (
    Schedule,
    check_settings,
    newest_checkpoint,
    read_checkpoint,
)
from seq2seq.training.distributed import check_processes, make_fabric, process_rank
from seq2seq.training.dry_run import dry_run
from seq2seq.training.fine_tuning import initial_bundle
from seq2seq.training.hardware import (
    allow_tf32,
    choose_accelerator,
    choose_precision,
    claim_device,
    describe_attention,
    out_of_memory,
    ran_out,
)
from seq2seq.training.lengths import in_steps
from seq2seq.training.loss_spikes import SkippedSteps
from seq2seq.training.provenance import note_start
from seq2seq.training.run_folder import (
    LogFile,
    Run,
    forget_empty_run,
    locked,
    open_run,
    plain_disk_errors,
    plain_settings,
    require_unfinished,
    write_settings,
)
from seq2seq.training.task import TranslationTask
from seq2seq.training.trackers import Tracker, WandbTracker, make_trackers, require_tensorboard
from seq2seq.training.trainer import Trainer

log = logging.getLogger(__name__)


def train(config: TrainConfig) -> float:
    """Run `scripts/train.py`; returns the best validation BLEU, which a sweep can maximise.

    Raises:
        UserError: something the user gave cannot be used.
        Interrupted: a signal stopped it; its state is saved.
    """
    # The machine
    accelerator = choose_accelerator(config.trainer)
    claim_device(accelerator)
    precision = choose_precision(config.trainer, accelerator, config.model)
    check_processes(config.trainer, precision)
    require_tensorboard(config.logger)
    keep_freed_memory()
    allow_tf32(accelerator)
    quiet_libraries()
    first = process_rank() == 0
    if not first:
        logging.getLogger("seq2seq").setLevel(logging.WARNING)  # one process speaks for all

    # The folder, and what the run begins with
    bundle = initial_bundle(config) if config.init_from and not config.resume else None
    folder = open_run(config)
    settings = plain_settings(config)
    with ExitStack() as open_files:
        writes = first and not config.dry_run
        if writes:
            open_files.enter_context(locked(folder))
        checkpoint = newest_checkpoint(folder) if config.resume else None
        state = None if checkpoint is None else read_checkpoint(checkpoint)
        if checkpoint is not None and state is not None:
            check_settings(checkpoint, state["settings"], settings)
        elif config.init_from and config.resume:
            bundle = initial_bundle(config)
        if writes:
            open_files.enter_context(LogFile(folder / "train.log"))

        # Data
        torch.manual_seed(config.seed)
        with forget_empty_run(folder, new=writes and config.resume is None):
            data = _prepare_data(config, folder, bundle)
            given, config = config, in_steps(config, data)
            if state is not None:
                if first:
                    make_up_for_report(folder)
                require_unfinished(folder, state, config.trainer)
        if writes:
            write_settings(given, folder)  # those that a run goes on with count from now on
            data.vocabularies.save(folder)
            (folder / "summary.json").unlink(missing_ok=True)  # a run that goes on is unfinished

        # Model
        torch.manual_seed(config.seed)
        whole_here = first or config.trainer.strategy != "fsdp"
        with torch.device("cpu" if whole_here else "meta"):
            model = build_model(config.model, *data.vocabularies.sizes)
        if bundle is not None and whole_here:
            model.load_state_dict(bundle.model.state_dict())
        if first:
            device = describe(config, accelerator, precision)
            announce(config, folder, data, model, device)
        if writes:
            report = data.prepared.report if data.prepared else None
            processes = config.trainer.devices * config.trainer.num_nodes
            with plain_disk_errors(folder):
                note_start(folder, count_parameters(model), device, processes, report)

        # Task, and a trial instead of training
        task = TranslationTask(model, config.optim, config.trainer.max_steps)
        if config.dry_run:
            if first:
                dry_run(config, data, task, accelerator, precision)
            return math.nan

        # Processes, trainer, training
        t = config.trainer
        fabric = make_fabric(accelerator, precision, t.devices, t.num_nodes, t.strategy)
        fabric.launch()
        run = Run(folder, settings, precision)
        step, validated = (0, True) if state is None else (state["step"], state["validated"])
        trackers = []
        if first:
            trackers = make_trackers(config.logger, folder, settings, step, validated=validated)
        validation = make_validation(config, run, data)
        callbacks = make_callbacks(config, run, data, validation, trackers)
        trainer = Trainer(
            fabric,
            task,
            run,
            max_tokens=config.data.max_tokens,
            accumulate=t.accumulate,
            gradient_clip=t.gradient_clip,
            spike=t.max_loss_spike,
            ema=config.optim.ema,
            val_every_n_steps=t.val_every_n_steps,
            log_every_n_steps=t.log_every_n_steps,
            compile=t.compile,
            seed=config.seed,
            validation=validation,
            skipped_steps=SkippedSteps(
                folder,
                run.processes.rank,
                data.vocabularies,
                threshold=t.max_loss_spike,
                stop=t.on_loss_spike == "stop",
            ),
            checkpoints=Schedule(config.checkpoint.every_n_steps, config.checkpoint.every_minutes),
            callbacks=callbacks,
            trackers=trackers,
        )
        if state is not None:
            log.info("resuming    after step %d", step)
        started = time.monotonic()
        with plain_disk_errors(folder), plain_memory_errors(config, trainer, accelerator):
            trainer.fit(data, checkpoint)

        # What is left behind
        if first:
            finish(config, folder, trainer, validation, time.monotonic() - started)
        return max(validation.best, validation.average)


def _prepare_data(config: TrainConfig, folder: Path, bundle: Bundle | None) -> TranslationData:
    """The data; with the vocabulary of a bundle, or of a run that goes on."""
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
    if bundle is not None:
        data.prepare(bundle.vocabularies)
    else:
        resumed = config.resume and any(folder.glob("tokenizer*.json"))
        data.prepare(Vocabularies.load(folder) if resumed else None)
    return data


def make_validation(config: TrainConfig, run: Run, data: TranslationData) -> Validation:
    """What scores the model, keeps the best bundle, and averages at the end."""
    count, by = config.checkpoint.average, config.checkpoint.average_by
    return Validation(
        run,
        data.val_pairs,
        data.vocabularies,
        config.decode,
        normalise=config.cleaning.steps(0),
        patience=config.trainer.patience,
        length_ratio=data.length_ratio,
        snapshots=Snapshots(run.folder, run.processes, count, by) if count else None,
    )


def make_callbacks(
    config: TrainConfig,
    run: Run,
    data: TranslationData,
    validation: Validation,
    trackers: list[Tracker],
) -> list[Callback]:
    """What watches the run; each stands behind those whose figures it takes."""
    samples = Samples(run.folder, config.logger.samples, validation)
    norms = GradientNorms(config.logger.kind != "none")
    callbacks: list[Callback] = [
        Throughput(passes=2 if config.optim.r_drop else 1),
        Progress(validation, config.trainer.val_every_n_steps),
        samples,
    ]
    if config.trainer.profile:
        callbacks.append(Profile(run.folder / "profile"))
    for tracker in trackers:
        if isinstance(tracker, WandbTracker):
            media = WandbMedia(
                tracker.run,
                run.folder,
                samples,
                norms,
                describe_attention(config.model, choose_accelerator(config.trainer), run.precision),
                data.prepared.folder / "report.html" if data.prepared else None,
            )
            callbacks.append(media)
    return [*callbacks, norms]  # which forgets its figures at the end of a validation


@contextmanager
def plain_memory_errors(config: TrainConfig, trainer: Trainer, accelerator: str) -> Iterator[None]:
    """Memory that runs out becomes a message that says what to change."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not ran_out(error):
            raise
        raise out_of_memory(
            trainer.batch,
            accelerator,
            max_tokens=config.data.max_tokens,
            accumulate=config.trainer.accumulate,
            beam=config.decode.beam,
            batch_tokens=config.decode.batch_tokens,
            run_dir=trainer.run.folder,
            fine_tuning=bool(config.init_from),
        ) from error
