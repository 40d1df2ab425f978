"""A training run from settings to a finished folder.

    <run>/config.yaml      resolved settings
    <run>/tokenizer.json   vocabulary
    <run>/checkpoints/     states to resume from
    <run>/bundle/          the best model by validation BLEU
    <run>/metrics/         curves as CSV; W&B or TensorBoard files beside it
    <run>/train.log        what was printed
    <run>/summary.json     written last: the run is finished
"""

from __future__ import annotations

import json
import logging
import shutil
import time
import warnings
from contextlib import nullcontext
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any

import lightning as L
import torch
import yaml

from seq2seq.callbacks.checkpoints import Checkpoints, check_shapes, newest_checkpoint
from seq2seq.callbacks.progress import Progress
from seq2seq.callbacks.throughput import Throughput
from seq2seq.callbacks.validation_bleu import ValidationBleu
from seq2seq.config import TrainConfig, TrainerConfig
from seq2seq.data.datamodule import TranslationData
from seq2seq.data.vocabularies import Vocabularies
from seq2seq.errors import RunError
from seq2seq.model.build import build_model
from seq2seq.model.translation_model import TranslationModel
from seq2seq.training.hardware import (
    choose_accelerator,
    choose_precision,
    describe_attention,
    describe_device,
    keep_freed_memory,
    process_rank,
)
from seq2seq.training.loggers import make_loggers, require_tensorboard
from seq2seq.training.task import TranslationTask

log = logging.getLogger(__name__)


def train(config: TrainConfig) -> float:
    """Run `scripts/train.py`; returns the best validation BLEU, which a sweep can maximise.

    Raises:
        UserError: something the user gave cannot be used.
        Interrupted: a signal stopped it; its state is saved.
    """
    accelerator = choose_accelerator(config.trainer)
    precision = choose_precision(config.trainer, accelerator)
    require_tensorboard(config.logger)
    run_dir = _open_run(config)
    checkpoint = _checkpoint(config, run_dir)
    keep_freed_memory()
    torch.set_float32_matmul_precision("high")
    _quiet_libraries()
    if process_rank() != 0:
        logging.getLogger("seq2seq").setLevel(logging.WARNING)  # one process speaks for all
    with LogFile(run_dir / "train.log") if process_rank() == 0 else nullcontext():
        L.seed_everything(config.seed, verbose=False)
        data = TranslationData(
            config.data, config.cleaning, config.tokenizer, config.model.max_length, config.seed
        )
        try:
            known = any(run_dir.glob("tokenizer*.json"))
            data.prepare(Vocabularies.load(run_dir) if known else None)
        except BaseException:
            if config.resume is None and process_rank() == 0:
                shutil.rmtree(run_dir)  # nothing was made yet: leave no empty run behind
            raise
        if process_rank() == 0:
            data.vocabularies.save(run_dir)
            (run_dir / "summary.json").unlink(missing_ok=True)  # a run that goes on is unfinished
        L.seed_everything(config.seed, verbose=False)
        source_size, target_size = data.vocabularies.sizes
        model = build_model(config.model, source_size, target_size)
        if process_rank() == 0:
            attention = describe_attention(config.model, accelerator, precision)
            device = f"{describe_device(accelerator)}, {precision}; attention: {attention}"
            _announce(config, run_dir, data, model, device)
        settings = asdict(config)
        # Folders of this machine say nothing elsewhere.
        settings["run_dir"] = settings["resume"] = settings["data"]["cache"] = None
        for corpus in (settings["data"], *settings["data"]["members"].values()):
            corpus["path"] = None
        bleu = ValidationBleu(
            data.val_pairs,
            data.vocabularies,
            config.decode,
            run_dir / "bundle",
            settings,
            config.cleaning.steps(0),
        )
        trainer = _make_trainer(config, accelerator, precision, run_dir, bleu, settings)
        task = TranslationTask(
            model, config.optim, config.trainer.gradient_clip, config.data.max_tokens
        )
        if checkpoint is not None:
            check_shapes(checkpoint, model)
            log.info("resuming    after step %s", int(checkpoint.stem.removeprefix("step-")))
        started = time.monotonic()
        trainer.fit(task, datamodule=data, ckpt_path=checkpoint, weights_only=True)
        if trainer.is_global_zero:
            _finish(config, run_dir, trainer, bleu, time.monotonic() - started)
    return bleu.best


def _make_trainer(
    config: TrainConfig,
    accelerator: str,
    precision: str,
    run_dir: Path,
    bleu: ValidationBleu,
    settings: dict[str, Any],
) -> L.Trainer:
    t: TrainerConfig = config.trainer
    checkpoints = Checkpoints(run_dir, config.checkpoint.every_n_steps, t.val_every_n_steps)
    return L.Trainer(
        accelerator=accelerator,
        devices=t.devices,
        num_nodes=t.num_nodes,
        strategy=t.strategy,
        precision=precision,  # type: ignore[arg-type]  # checked by our settings
        max_steps=t.max_steps,
        accumulate_grad_batches=t.accumulate,
        val_check_interval=t.val_every_n_steps * t.accumulate,
        check_val_every_n_epoch=None,
        log_every_n_steps=t.log_every_n_steps,
        num_sanity_val_steps=0,
        logger=make_loggers(config.logger, run_dir, settings),
        callbacks=[Throughput(), Progress(), bleu, checkpoints],
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
        text = yaml.safe_dump(asdict(config), sort_keys=False, allow_unicode=True)
        (run_dir / "config.yaml").write_text(text, encoding="utf-8")
    except OSError as error:
        raise RunError(
            f"cannot write to the run's folder {run_dir}: {error}. Choose another: run_dir=FOLDER"
        ) from error
    return run_dir


def _checkpoint(config: TrainConfig, run_dir: Path) -> Path | None:
    """The newest checkpoint of the run to resume; None for a new run, or one killed before any."""
    checkpoint = newest_checkpoint(run_dir) if config.resume else None
    if checkpoint is None:
        return None
    step = int(checkpoint.stem.removeprefix("step-"))
    if step >= config.trainer.max_steps:
        raise RunError(
            f"the run {run_dir} is finished: it has made all {step} steps. To train it longer: "
            f"resume={run_dir} trainer.max_steps={2 * step}"
        )
    return checkpoint


def _announce(
    config: TrainConfig, run_dir: Path, data: TranslationData, model: TranslationModel, device: str
) -> None:
    parameters = sum(parameter.numel() for parameter in model.parameters())
    sizes = " and ".join(f"{size:,}" for size in dict.fromkeys(data.vocabularies.sizes))
    lines = [
        f"data        {config.data.name}: {data.summary()}, {sizes} subwords",
        *([f"prepared    {data.prepared.folder / 'report.html'}"] if data.prepared else []),
        f"model       {config.model.name}: {parameters:,} parameters; {config.model.summary()}",
        f"device      {device}",
        f"steps       {config.trainer.max_steps:,} of {config.data.max_tokens:,} tokens"
        + (f" x {config.trainer.accumulate}" if config.trainer.accumulate > 1 else ""),
        f"results in  {run_dir}",
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
    summary = {
        "steps": trainer.global_step,
        "best_step": bleu.best_step,
        "best_val_bleu": round(bleu.best, 4),
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


def _quiet_libraries() -> None:
    """Keep messages that tell our users nothing they can act on."""
    logging.getLogger("lightning.pytorch").setLevel(logging.WARNING)
    warnings.filterwarnings("ignore", message=".*does not have many workers.*")
    warnings.filterwarnings("ignore", message=".*LeafSpec.*")
