"""A training run from settings to a finished folder (see `run_folder.py`)."""

from __future__ import annotations

import json
import logging
import math
import shutil
import time
import warnings
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lightning as L
from lightning.pytorch.loggers import Logger, WandbLogger

from seq2seq.callbacks.averaging import Averaging
from seq2seq.callbacks.bad_steps import BadSteps
from seq2seq.callbacks.checkpoint_files import (
    SafeFiles,
    check_settings,
    check_shapes,
    newest_checkpoint,
    read_entry,
    step_of,
)
from seq2seq.callbacks.checkpoints import Checkpoints
from seq2seq.callbacks.ema import EMA
from seq2seq.callbacks.gradient_norms import GradientNorms
from seq2seq.callbacks.profile import Profile
from seq2seq.callbacks.progress import Progress
from seq2seq.callbacks.samples import Samples
from seq2seq.callbacks.stopwatch import Stopwatch
from seq2seq.callbacks.throughput import Throughput
from seq2seq.callbacks.validation_bleu import ValidationBleu
from seq2seq.callbacks.wandb_media import WandbMedia
from seq2seq.config import TrainConfig, TrainerConfig
from seq2seq.data.datamodule import TranslationData
from seq2seq.data.vocabularies import Vocabularies
from seq2seq.disk import replace_text
from seq2seq.inference.bundle import Bundle
from seq2seq.malloc import keep_freed_memory
from seq2seq.model.build import build_model
from seq2seq.model.translation_model import TranslationModel
from seq2seq.training.dry_run import dry_run
from seq2seq.training.fine_tuning import initial_bundle
from seq2seq.training.hardware import (
    allow_tf32,
    choose_accelerator,
    choose_precision,
    describe_attention,
    describe_device,
    explain_precision,
    process_rank,
)
from seq2seq.training.lengths import in_steps
from seq2seq.training.loggers import make_loggers, require_tensorboard
from seq2seq.training.memory import OutOfMemory, ran_out
from seq2seq.training.origin import note_start
from seq2seq.training.run_folder import (
    LogFile,
    open_run,
    plain_disk_errors,
    plain_settings,
    require_unfinished,
    write_settings,
)
from seq2seq.training.stopping import StopRequest
from seq2seq.training.strategy import check_processes, choose_strategy
from seq2seq.training.task import TranslationTask

log = logging.getLogger(__name__)


def train(config: TrainConfig) -> float:
    """Run `scripts/train.py`; returns the best validation BLEU, which a sweep can maximise.

    Raises:
        UserError: something the user gave cannot be used.
        Interrupted: a signal stopped it; its state is saved.
        OutOfMemory: a batch or a validation does not fit.
    """
    accelerator = choose_accelerator(config.trainer)
    precision = choose_precision(config.trainer, accelerator, config.model)
    check_processes(config.trainer, precision)
    require_tensorboard(config.logger)
    start = _find_start(config)
    keep_freed_memory()
    allow_tf32(accelerator)
    quiet_libraries()
    if process_rank() != 0:
        logging.getLogger("seq2seq").setLevel(logging.WARNING)  # one process speaks for all
    with LogFile(start.run_dir / "train.log") if start.writes else nullcontext():
        data, config = _prepare_data(config, start)
        L.seed_everything(config.seed, verbose=False)
        model = build_model(config.model, *data.vocabularies.sizes)
        if start.initial is not None:
            model.load_state_dict(start.initial.model.state_dict())
        if process_rank() == 0:
            device = _describe(config, accelerator, precision)
            _announce(config, start.run_dir, data, model, device)
            if start.writes:
                _note(config, start.run_dir, data, model, device)
        task = TranslationTask(
            model,
            config.optim,
            config.trainer.gradient_clip,
            config.data.max_tokens,
            spike=config.trainer.max_loss_spike,
            compile=config.trainer.compile,
        )
        if config.dry_run:
            if process_rank() == 0:
                dry_run(config, data, task, accelerator, precision)
            return math.nan
        return _fit(config, start, data, task, accelerator, precision)


@dataclass(frozen=True)
class Start:
    """What a run begins with.

    Attributes:
        run_dir: its folder.
        settings: as its checkpoints and bundles keep them.
        writes: whether this process writes to the folder.
        checkpoint: the state to go on from; None = a new run.
        entry: what the checkpoint says of itself.
        initial: the bundle whose weights a new run takes.
    """

    run_dir: Path
    settings: dict[str, Any]
    writes: bool
    checkpoint: Path | None
    entry: dict[str, Any]
    initial: Bundle | None

    @property
    def step(self) -> int:
        return 0 if self.checkpoint is None else step_of(self.checkpoint)


def _find_start(config: TrainConfig) -> Start:
    """Open the folder, and find what the run goes on from.

    Raises:
        UserError: folder, checkpoint or bundle cannot be used.
    """
    initial = initial_bundle(config) if config.init_from and not config.resume else None
    run_dir = open_run(config)
    settings = plain_settings(config)
    checkpoint = newest_checkpoint(run_dir) if config.resume else None
    entry = {} if checkpoint is None else read_entry(checkpoint)
    if checkpoint is not None:
        check_settings(checkpoint, entry, settings)
    if config.init_from and config.resume and checkpoint is None:
        initial = initial_bundle(config)
    writes = process_rank() == 0 and not config.dry_run
    return Start(run_dir, settings, writes, checkpoint, entry, initial)


def _prepare_data(config: TrainConfig, start: Start) -> tuple[TranslationData, TrainConfig]:
    """Data, and the settings with all lengths in steps; both are noted in the run's folder."""
    L.seed_everything(config.seed, verbose=False)
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
    run_dir, initial = start.run_dir, start.initial
    try:
        resumed = config.resume and any(run_dir.glob("tokenizer*.json"))
        known = Vocabularies.load(run_dir) if resumed else None
        data.prepare(initial.vocabularies if initial is not None else known)
        given, config = config, in_steps(config, data)
        if start.checkpoint is not None:
            require_unfinished(config, run_dir, start.checkpoint, start.entry)
    except BaseException:
        if config.resume is None and start.writes:
            shutil.rmtree(run_dir)  # nothing was made yet: leave no empty run behind
        raise
    if start.writes:
        write_settings(given, run_dir)  # those that a run goes on with count from now on
        data.vocabularies.save(run_dir)
        (run_dir / "summary.json").unlink(missing_ok=True)  # a run that goes on is unfinished
    return data, config


def _fit(
    config: TrainConfig,
    start: Start,
    data: TranslationData,
    task: TranslationTask,
    accelerator: str,
    precision: str,
) -> float:
    """Train to the end; returns the validation BLEU of the bundle."""
    run_dir, stop = start.run_dir, StopRequest()
    bleu = ValidationBleu(
        data.val_pairs,
        data.vocabularies,
        config.decode,
        run_dir / "bundle",
        start.settings,
        config.cleaning.steps(0),
        config.trainer.patience,
        stop,
        data.length_ratio,
    )
    count, by = config.checkpoint.average, config.checkpoint.average_by
    averaging = Averaging(run_dir, count, by, bleu) if count else None
    validated = start.entry.get("validated", True)
    loggers = make_loggers(config.logger, run_dir, start.settings, start.step, validated=validated)
    attention = describe_attention(config.model, accelerator, precision)
    recording = _recording(config, run_dir, data, bleu, loggers, attention)
    trainer = _make_trainer(
        config, start, stop, bleu, [bleu, *recording, averaging], loggers, accelerator, precision
    )
    if start.checkpoint is not None:
        check_shapes(start.checkpoint, task.model)
        log.info("resuming    after step %d", start.step)
    started = time.monotonic()
    try:
        with plain_disk_errors(run_dir):
            trainer.fit(task, datamodule=data, ckpt_path=start.checkpoint, weights_only=True)
    except SystemExit as error:
        if isinstance(error.__context__, KeyboardInterrupt):  # Lightning makes 1 of it
            raise KeyboardInterrupt from None
        raise
    except (RuntimeError, MemoryError) as error:
        if not ran_out(error):
            raise
        raise OutOfMemory(task.batch, config, run_dir, accelerator) from error
    best = max(bleu.best, bleu.average)
    if trainer.is_global_zero:
        summary = {
            "steps": trainer.global_step,
            "stopped_early": trainer.global_step < config.trainer.max_steps,
            "best_step": bleu.best_step,
            "best_val_bleu": round(best, 4),
            **({"average": averaging.summary} if averaging and averaging.summary else {}),
            "seconds": round(time.monotonic() - started, 1),
        }
        where = "of an average" if bleu.average > bleu.best else f"at step {bleu.best_step}"
        _finish(config, run_dir, summary, where)
        for callback in recording:
            if isinstance(callback, WandbMedia):
                callback.finish(summary, config.logger.upload_bundle)
    return best


def _recording(
    config: TrainConfig,
    run_dir: Path,
    data: TranslationData,
    bleu: ValidationBleu,
    loggers: list[Logger],
    attention: str,
) -> list[L.Callback]:
    """What is recorded of a run beside losses and scores; they stand behind `bleu`."""
    samples = Samples(run_dir, config.logger.samples, bleu)
    norms = GradientNorms(config.logger.kind != "none")
    report = data.prepared.folder / "report.html" if data.prepared else None
    media = [
        WandbMedia(logger.experiment, run_dir, samples, norms, attention, report)
        for logger in loggers
        if isinstance(logger, WandbLogger)
    ]
    return [norms, samples, *media]


def _make_trainer(
    config: TrainConfig,
    start: Start,
    stop: StopRequest,
    bleu: ValidationBleu,
    validating: Sequence[L.Callback | None],
    loggers: list[Logger],
    accelerator: str,
    precision: str,
) -> L.Trainer:
    """The trainer; `validating` are the callbacks that judge and keep what was validated."""
    t: TrainerConfig = config.trainer
    run_dir, settings = start.run_dir, start.settings
    checkpoints = Checkpoints(
        run_dir,
        config.checkpoint,
        t.val_every_n_steps,
        SafeFiles(),
        stop,
        settings,
        config.seed,
    )
    bad_steps = BadSteps(run_dir, bleu.vocabularies, t.on_loss_spike == "stop", checkpoints)
    stopwatch = Stopwatch()
    throughput = Throughput(stopwatch, passes=2 if config.optim.r_drop else 1)
    # The order counts: what is validated and kept is the average, what is saved the raw weights.
    callbacks = [
        EMA(config.optim.ema) if config.optim.ema else None,
        throughput,
        Progress(bleu, t.val_every_n_steps),
        Profile(run_dir / "profile", stopwatch) if t.profile else None,
        *validating,
        bad_steps,
        checkpoints,
    ]
    return L.Trainer(
        accelerator=accelerator,
        devices=t.devices,
        num_nodes=t.num_nodes,
        strategy=choose_strategy(t),
        precision=precision,  # type: ignore[arg-type]  # checked by our settings
        max_steps=t.max_steps,
        accumulate_grad_batches=t.accumulate,
        val_check_interval=t.val_every_n_steps * t.accumulate,
        check_val_every_n_epoch=None,
        log_every_n_steps=t.log_every_n_steps,
        num_sanity_val_steps=0,
        inference_mode=t.strategy != "fsdp",  # which sharded weights do not know
        logger=loggers,
        plugins=[checkpoints.files],
        callbacks=[callback for callback in callbacks if callback is not None],
        profiler=stopwatch,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        use_distributed_sampler=False,
        default_root_dir=run_dir,
    )


def _describe(config: TrainConfig, accelerator: str, precision: str) -> str:
    """Device, precision and attention kernels in words."""
    why = explain_precision(config.trainer.precision, precision, accelerator)
    attention = describe_attention(config.model, accelerator, precision)
    numbers = f"{precision} ({why})" if why else precision
    return f"{describe_device(accelerator)}, {numbers}; attention: {attention}"


def _announce(
    config: TrainConfig, run_dir: Path, data: TranslationData, model: TranslationModel, device: str
) -> None:
    parameters = sum(parameter.numel() for parameter in model.parameters())
    sizes = " and ".join(f"{size:,}" for size in dict.fromkeys(data.vocabularies.sizes))
    t = config.trainer
    processes, final = t.devices * t.num_nodes, config.data.final_steps
    lines = [
        f"data        {config.data.name}: {data.summary()}, {sizes} subwords",
        *([f"prepared    {data.prepared.folder / 'report.html'}"] if data.prepared else []),
        f"model       {config.model.name}: {parameters:,} parameters; {config.model.summary()}",
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


def _note(
    config: TrainConfig, run_dir: Path, data: TranslationData, model: TranslationModel, device: str
) -> None:
    parameters = sum(parameter.numel() for parameter in model.parameters())
    processes = config.trainer.devices * config.trainer.num_nodes
    report = data.prepared.report if data.prepared else None
    with plain_disk_errors(run_dir):
        note_start(run_dir, parameters, device, processes, report)


def _finish(config: TrainConfig, run_dir: Path, summary: dict[str, Any], where: str) -> None:
    """Write `<run>/summary.json`, and say what to do next."""
    with plain_disk_errors(run_dir):
        replace_text(run_dir / "summary.json", json.dumps(summary, indent=2) + "\n")
    corpus = f"data={config.data.name}"
    if config.data.path is not None:
        corpus += f" data.path={config.data.path}"
    log.info(
        "finished after %.0f s: best validation BLEU %.2f %s\n"
        "evaluate    python scripts/evaluate.py model=%s %s\n"
        'translate   translate --model %s "hello world"',
        *(summary["seconds"], summary["best_val_bleu"]),
        *(where, run_dir, corpus, run_dir),
    )
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


def quiet_libraries() -> None:
    """Keep messages that tell our users nothing they can act on."""
    logging.getLogger("lightning.pytorch").setLevel(logging.WARNING)
    warnings.filterwarnings("ignore", message=".*does not have many workers.*")
    warnings.filterwarnings("ignore", message=".*LeafSpec.*")
    # What fp16 does when its first steps overflow; the schedule goes on with the data.
    warnings.filterwarnings("ignore", message=".*lr_scheduler.step.. before .optimizer.step.*")
    warnings.filterwarnings("ignore", message=".*returned a view tensor.*")  # keys_values, by FSDP
    warnings.filterwarnings("ignore", message="Mismatch dtype between input and weight")  # qk_norm
