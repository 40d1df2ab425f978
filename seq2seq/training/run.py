"""A training run from settings to a finished folder.

    <run>/config.yaml      resolved settings
    <run>/tokenizer.json   vocabulary
    <run>/checkpoints/     states to resume from
    <run>/snapshots/       weights to average, if asked for
    <run>/bad_steps/       sentences of updates that were left out, if any were
    <run>/bundle/          the best model by validation BLEU
    <run>/metrics/         curves as CSV; W&B or TensorBoard files beside it
    <run>/profile/         where the time goes, if asked for
    <run>/train.log        what was printed
    <run>/summary.json     written last: the run is finished
"""

from __future__ import annotations

import errno
import gc
import json
import logging
import math
import os
import shutil
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any

import lightning as L
import torch
import yaml
from lightning.pytorch.loggers import Logger

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
from seq2seq.callbacks.profile import Profile
from seq2seq.callbacks.progress import Progress
from seq2seq.callbacks.stopwatch import Stopwatch
from seq2seq.callbacks.throughput import Throughput
from seq2seq.callbacks.validation_bleu import ValidationBleu
from seq2seq.config import TrainConfig, TrainerConfig
from seq2seq.data.datamodule import TranslationData
from seq2seq.data.vocabularies import Vocabularies
from seq2seq.errors import RunError
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
    keep_freed_memory,
    process_rank,
)
from seq2seq.training.lengths import in_steps
from seq2seq.training.loggers import make_loggers, require_tensorboard
from seq2seq.training.memory import OutOfMemory, in_more_parts, ran_out
from seq2seq.training.stopping import StopRequest
from seq2seq.training.strategy import check_processes, choose_strategy
from seq2seq.training.task import TranslationTask

log = logging.getLogger(__name__)

DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO, errno.EACCES)


def train(config: TrainConfig) -> float:
    """Run `scripts/train.py`; returns the best validation BLEU, which a sweep can maximise.

    Raises:
        UserError: something the user gave cannot be used.
        Interrupted: a signal stopped it; its state is saved.
        OutOfMemory: and `trainer.halve_on_oom` does not help.
    """
    while True:
        try:
            return _train(config)
        except OutOfMemory as error:
            with LogFile(error.run_dir / "train.log"):
                config = in_more_parts(config, error)
        gc.collect()  # what the run held that is given up
        torch.cuda.empty_cache()


def _train(config: TrainConfig) -> float:
    accelerator = choose_accelerator(config.trainer)
    precision = choose_precision(config.trainer, accelerator, config.model)
    check_processes(config.trainer, precision)
    require_tensorboard(config.logger)
    initial = initial_bundle(config) if config.init_from and not config.resume else None
    run_dir = _open_run(config)
    settings = _plain(config)
    checkpoint = newest_checkpoint(run_dir) if config.resume else None
    entry = {} if checkpoint is None else read_entry(checkpoint)
    if checkpoint is not None:
        check_settings(checkpoint, entry, settings)
    if config.init_from and config.resume and checkpoint is None:
        initial = initial_bundle(config)
    keep_freed_memory()
    allow_tf32(accelerator)
    quiet_libraries()
    if process_rank() != 0:
        logging.getLogger("seq2seq").setLevel(logging.WARNING)  # one process speaks for all
    writes = process_rank() == 0 and not config.dry_run
    with LogFile(run_dir / "train.log") if writes else nullcontext():
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
        try:
            resumed = config.resume and any(run_dir.glob("tokenizer*.json"))
            known = Vocabularies.load(run_dir) if resumed else None
            data.prepare(initial.vocabularies if initial is not None else known)
            given, config = config, in_steps(config, data)
            if checkpoint is not None:
                _require_unfinished(config, run_dir, checkpoint, entry)
        except BaseException:
            if config.resume is None and writes:
                shutil.rmtree(run_dir)  # nothing was made yet: leave no empty run behind
            raise
        if writes:
            _write_settings(given, run_dir)  # those that a run goes on with count from now on
            data.vocabularies.save(run_dir)
            (run_dir / "summary.json").unlink(missing_ok=True)  # a run that goes on is unfinished
        L.seed_everything(config.seed, verbose=False)
        source_size, target_size = data.vocabularies.sizes
        model = build_model(config.model, source_size, target_size)
        if initial is not None:
            model.load_state_dict(initial.model.state_dict())
        if process_rank() == 0:
            attention = describe_attention(config.model, accelerator, precision)
            why = explain_precision(config.trainer.precision, precision, accelerator)
            numbers = f"{precision} ({why})" if why else precision
            device = f"{describe_device(accelerator)}, {numbers}; attention: {attention}"
            _announce(config, run_dir, data, model, device)
        task = TranslationTask(
            model,
            config.optim,
            config.trainer.gradient_clip,
            config.data.max_tokens,
            spike=config.trainer.spike,
            split=config.trainer.split,
            compile=config.trainer.compile,
        )
        if config.dry_run:
            dry_run(config, data, task, accelerator, precision)
            return math.nan
        stop = StopRequest()
        bleu = ValidationBleu(
            data.val_pairs,
            data.vocabularies,
            config.decode,
            run_dir / "bundle",
            settings,
            config.cleaning.steps(0),
            config.trainer.patience,
            stop,
        )
        step = 0 if checkpoint is None else step_of(checkpoint)
        loggers = make_loggers(
            config.logger, run_dir, settings, step, validated=entry.get("validated", True)
        )
        checkpoints = Checkpoints(
            run_dir,
            config.checkpoint,
            config.trainer.val_every_n_steps,
            SafeFiles(),
            stop,
            settings,
            config.seed,
        )
        trainer = _make_trainer(config, accelerator, precision, run_dir, bleu, checkpoints, loggers)
        if checkpoint is not None:
            check_shapes(checkpoint, model)
            log.info("resuming    after step %d", step)
        started = time.monotonic()
        try:
            with _plain_disk_errors(run_dir):
                trainer.fit(task, datamodule=data, ckpt_path=checkpoint, weights_only=True)
        except SystemExit as error:
            if isinstance(error.__context__, KeyboardInterrupt):  # Lightning makes 1 of it
                raise KeyboardInterrupt from None
            raise
        except (RuntimeError, MemoryError) as error:
            if not ran_out(error):
                raise
            raise OutOfMemory(task.batch, config, run_dir, accelerator) from error
        if trainer.is_global_zero:
            _finish(config, run_dir, trainer, bleu, time.monotonic() - started)
    return bleu.best


def _plain(config: TrainConfig) -> dict[str, Any]:
    """The settings as a dict, without folders of this machine, which say nothing elsewhere."""
    settings = asdict(config)
    settings["run_dir"] = settings["resume"] = settings["data"]["cache"] = None
    for corpus in (settings["data"], *settings["data"]["members"].values()):
        corpus["path"] = None
    return settings


@contextmanager
def _plain_disk_errors(run_dir: Path) -> Iterator[None]:
    """A full or broken disk, wherever it is met, becomes a message that says how to go on."""
    try:
        yield
    except OSError as error:
        if error.errno not in DISK_ERRORS:
            raise
        raise RunError(
            f"{error.filename or run_dir}: {error.strerror}. Make room or mend the folder, then go "
            f"on from the last checkpoint: python scripts/train.py resume={run_dir}"
        ) from error


def _make_trainer(
    config: TrainConfig,
    accelerator: str,
    precision: str,
    run_dir: Path,
    bleu: ValidationBleu,
    checkpoints: Checkpoints,
    loggers: list[Logger],
) -> L.Trainer:
    t: TrainerConfig = config.trainer
    bad_steps = BadSteps(run_dir, bleu.vocabularies, t.on_bad_step == "stop", checkpoints)
    # The order counts: what is validated and kept is the average, what is saved the raw weights.
    ema = [EMA(config.optim.ema)] if config.optim.ema else []
    count, by = config.checkpoint.average, config.checkpoint.average_by
    averaging = [Averaging(run_dir, count, by, bleu)] if count else []
    stopwatch = Stopwatch()
    throughput = Throughput(stopwatch, passes=2 if config.optim.r_drop else 1)
    seen = [throughput, Progress(bleu, t.val_every_n_steps)]
    if t.profile:
        seen.append(Profile(run_dir / "profile", stopwatch))
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
        callbacks=[*ema, *seen, bleu, *averaging, bad_steps, checkpoints],
        profiler=stopwatch,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        use_distributed_sampler=False,
        default_root_dir=run_dir,
    )


def _open_run(config: TrainConfig) -> Path:
    """The run's folder, made and writable, with the settings in it.

    Raises:
        RunError: it holds something already, or cannot be written.
    """
    if config.dry_run:
        return Path(os.devnull)  # where nothing is found and nothing can be written
    if config.resume is not None:
        return Path(config.resume)
    if config.run_dir is None:
        if config.trainer.devices * config.trainer.num_nodes > 1:
            raise RunError(
                "several processes must agree on one folder: give it, for example "
                f"run_dir=runs/{config.data.name}-{config.model.name}"
            )
        stamp = datetime.now().strftime("%Y%m%d-%H%M%S")
        run_dir = Path("runs") / f"{config.data.name}-{config.model.name}-{stamp}"
    else:
        run_dir = Path(config.run_dir)
        if process_rank() != 0:
            return run_dir  # the first process makes it
        if run_dir.exists() and (not run_dir.is_dir() or any(run_dir.iterdir())):
            state = "a finished run" if (run_dir / "summary.json").exists() else "files"
            raise RunError(
                f"run_dir={run_dir} already holds {state}, which training would overwrite: "
                f"choose another folder, or go on with the run in it: resume={run_dir}"
            )
    try:
        (run_dir / "checkpoints").mkdir(parents=True)
        _write_settings(config, run_dir)
    except OSError as error:
        raise RunError(
            f"cannot write to the run's folder {run_dir}: {error}. Choose another: run_dir=FOLDER"
        ) from error
    return run_dir


def _write_settings(config: TrainConfig, run_dir: Path) -> None:
    """Write `<run>/config.yaml`, whole or not at all."""
    text = yaml.safe_dump(asdict(config) | {"resume": None}, sort_keys=False, allow_unicode=True)
    partial = run_dir / "config.yaml.partial"
    partial.write_text(text, encoding="utf-8")
    partial.replace(run_dir / "config.yaml")


def _require_unfinished(
    config: TrainConfig, run_dir: Path, checkpoint: Path, entry: dict[str, Any]
) -> None:
    """Raise RunError if the run to resume has made all its steps, or stopped early."""
    if not entry["validated"] or not (run_dir / "summary.json").exists():
        return  # what comes after the last step is still to be done
    step, patience = step_of(checkpoint), config.trainer.patience
    if step >= config.trainer.max_steps:
        raise RunError(
            f"the run {run_dir} is finished: it has made all {step} steps. To train it longer: "
            f"resume={run_dir} trainer.max_steps={2 * step}"
        )
    state = torch.load(checkpoint, map_location="cpu", weights_only=True, mmap=True)
    worse = state["callbacks"].get(ValidationBleu.__name__, {}).get("worse", 0)
    if patience is not None and worse >= patience:
        raise RunError(
            f"the run {run_dir} stopped early after step {step}: {worse} validations brought no "
            f"better BLEU. To train it on: resume={run_dir} trainer.patience={worse + patience} "
            "(or null: never stop early)"
        )


def _announce(
    config: TrainConfig, run_dir: Path, data: TranslationData, model: TranslationModel, device: str
) -> None:
    parameters = sum(parameter.numel() for parameter in model.parameters())
    sizes = " and ".join(f"{size:,}" for size in dict.fromkeys(data.vocabularies.sizes))
    t = config.trainer
    processes = t.devices * t.num_nodes
    lines = [
        f"data        {config.data.name}: {data.summary()}, {sizes} subwords",
        *([f"prepared    {data.prepared.folder / 'report.html'}"] if data.prepared else []),
        f"model       {config.model.name}: {parameters:,} parameters; {config.model.summary()}",
        *([f"weights     of {config.init_from}"] if config.init_from else []),
        f"device      {device}",
        f"steps       {t.max_steps:,} of {config.data.max_tokens:,} tokens"
        + (f" x {t.accumulate} batches" if t.accumulate > 1 else "")
        + (f" x {processes} processes" if processes > 1 else ""),
        *([] if config.dry_run else [f"results in  {run_dir}"]),
    ]
    if config.data.name == "starter":
        lines.append(
            "real data   this is the built-in starter corpus; to train on your own text: "
            "data=files data.path=FOLDER (holding train, val and test files)"
        )
    log.info("\n".join(lines))


def _finish(
    config: TrainConfig, run_dir: Path, trainer: L.Trainer, bleu: ValidationBleu, seconds: float
) -> None:
    corpus = f"data={config.data.name}"
    if config.data.path is not None:
        corpus += f" data.path={config.data.path}"
    callbacks: list[L.Callback] = trainer.callbacks  # type: ignore[attr-defined]
    average = next((c.summary for c in callbacks if isinstance(c, Averaging)), None)
    stopped_early = trainer.global_step < config.trainer.max_steps
    summary = {
        "steps": trainer.global_step,
        "stopped_early": stopped_early,
        "best_step": bleu.best_step,
        "best_val_bleu": round(bleu.best, 4),
        **({"average": average} if average else {}),
        "seconds": round(seconds, 1),
    }
    text = json.dumps(summary, indent=2) + "\n"
    (run_dir / "summary.json").write_text(text, encoding="utf-8")
    log.info(
        "finished after %.0f s: best validation BLEU %.2f at step %d\n"
        "evaluate    python scripts/evaluate.py model=%s %s\n"
        'translate   translate --model %s "hello world"',
        *(seconds, bleu.best, bleu.best_step, run_dir, corpus, run_dir),
    )


class LogFile(logging.FileHandler):
    """While open, what the project logs also goes to a file."""

    def __init__(self, path: Path):
        super().__init__(path, encoding="utf-8", delay=True)
        self.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))

    def __enter__(self) -> None:
        logging.getLogger("seq2seq").addHandler(self)

    def __exit__(self, *exception: object) -> None:
        logging.getLogger("seq2seq").removeHandler(self)
        self.close()


def quiet_libraries() -> None:
    """Keep messages that tell our users nothing they can act on."""
    logging.getLogger("lightning.pytorch").setLevel(logging.WARNING)
    warnings.filterwarnings("ignore", message=".*does not have many workers.*")
    warnings.filterwarnings("ignore", message=".*LeafSpec.*")
    # What fp16 does when its first steps overflow; the schedule goes on with the data.
    warnings.filterwarnings("ignore", message=".*lr_scheduler.step.. before .optimizer.step.*")
    warnings.filterwarnings("ignore", message=".*returned a view tensor.*")  # keys_values, by FSDP
