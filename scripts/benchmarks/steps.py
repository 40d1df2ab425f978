"""The first steps of a training run, and what each of their parts takes."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import lightning as L
import torch

from seq2seq.callbacks.ema import EMA
from seq2seq.config import TrainConfig
from seq2seq.data.collate import Batch
from seq2seq.data.datamodule import TranslationData
from seq2seq.model.build import build_model
from seq2seq.model.flops import BatchSize, training_flops
from seq2seq.model.translation_model import TranslationModel
from seq2seq.training.lengths import in_steps
from seq2seq.training.run import quiet_libraries
from seq2seq.training.task import TranslationTask

PARTS = ("data", "forward", "backward", "optimiser")


@dataclass
class Step:
    """One update of the weights.

    Attributes:
        source_tokens, target_tokens: real ones.
        positions: of both sides, padding included.
        flops: floating-point operations of the model, see `model/flops.py`.
        seconds: of each of `PARTS`; all of the time belongs to one of them.
    """

    source_tokens: int = 0
    target_tokens: int = 0
    positions: int = 0
    flops: float = 0.0
    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(PARTS, 0.0))


def open_data(config: TrainConfig) -> TranslationData:
    """The prepared data of a run."""
    t = config.trainer
    data = TranslationData(
        *(config.data, config.cleaning, config.tokenizer, config.model.max_length, config.seed),
        train_pairs=t.train_pairs,
        val_pairs=t.val_pairs,
        val_on_train=t.val_on_train,
    )
    data.prepare()
    return data


def train_steps(
    config: TrainConfig, steps: int, accelerator: str, precision: str
) -> tuple[TranslationModel, list[Step]]:
    """Train for a few steps as `training/run.py` does, but for validations and checkpoints."""
    quiet_libraries()
    data = open_data(config)
    config = in_steps(config, data)
    L.seed_everything(config.seed, verbose=False)
    model = build_model(config.model, *data.vocabularies.sizes)
    t = config.trainer
    task = TranslationTask(
        *(model, config.optim, t.gradient_clip, config.data.max_tokens, t.max_loss_spike),
        compile=t.compile,
    )
    ema = [EMA(config.optim.ema)] if config.optim.ema else []
    timer = StepTimer(passes=2 if config.optim.r_drop else 1)
    trainer = L.Trainer(
        accelerator=accelerator,
        devices=1,
        precision=precision,  # type: ignore[arg-type]  # checked by our settings
        max_steps=max(t.max_steps, steps),  # for the schedule; what ends us is the epoch
        max_epochs=1,
        limit_train_batches=steps * t.accumulate,
        limit_val_batches=0,
        accumulate_grad_batches=t.accumulate,
        log_every_n_steps=t.log_every_n_steps,
        logger=False,
        callbacks=[*ema, timer],
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(task, datamodule=data)
    return model, timer.steps()


class StepTimer(L.Callback):
    """Cuts the time of training into steps, and each step into `PARTS`.

    On a GPU the marks are events in its stream: nothing waits for them, and they tell when the
    GPU came by. So `data` is the time that it had nothing to do for want of a batch.

    Args:
        passes: forward passes over a batch; R-Drop makes two.
    """

    def __init__(self, passes: int = 1) -> None:
        self.passes = passes
        self._steps: list[Step] = []
        self._now = Step()
        self._laps: list[tuple[Step, str, Any, Any]] = []  # part, its begin and end

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self._cuda = pl_module.device.type == "cuda"
        self._last = self._mark()

    def on_train_batch_start(self, *_: Any) -> None:
        self._lap("data")

    def on_before_backward(self, *_: Any) -> None:
        self._lap("forward")

    def on_after_backward(self, *_: Any) -> None:
        self._lap("backward")

    def on_train_batch_end(
        self, trainer: L.Trainer, pl_module: Any, outputs: Any, batch: Batch, batch_idx: int
    ) -> None:
        self._lap("optimiser")
        model, step = pl_module.model, self._now
        step.source_tokens += batch.source_tokens
        step.target_tokens += batch.target_tokens
        step.positions += batch.source.numel() + batch.labels.numel()
        size = BatchSize(batch.source.size(0), batch.source_tokens, batch.target_tokens)
        step.flops += self.passes * training_flops(model.config, model.vocab_sizes[1], size)
        if (batch_idx + 1) % trainer.accumulate_grad_batches == 0:
            self._steps.append(step)
            self._now = Step()

    def _mark(self) -> Any:
        if not self._cuda:
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record()
        return event

    def _lap(self, part: str) -> None:
        begin, self._last = self._last, self._mark()
        self._laps.append((self._now, part, begin, self._last))

    def steps(self) -> list[Step]:
        """All updates so far."""
        if self._cuda:
            torch.cuda.synchronize()
        for step, part, begin, end in self._laps:
            step.seconds[part] += begin.elapsed_time(end) / 1000 if self._cuda else end - begin
        self._laps = []
        return self._steps
