"""What training achieves: real tokens and FLOP per second, padding, waiting, memory."""

from __future__ import annotations

import time
from dataclasses import astuple, dataclass
from typing import Any

import lightning as L
import torch

from seq2seq.callbacks.stopwatch import Stopwatch
from seq2seq.data.collate import Batch
from seq2seq.model.flops import BatchSize, training_flops
from seq2seq.training.hardware import dense_peak, peak_memory
from seq2seq.training.task import TranslationTask


@dataclass
class Work:
    """What the batches of a window held."""

    source: float = 0.0  # real tokens
    target: float = 0.0
    positions: float = 0.0  # padding included
    flops: float = 0.0
    waited: float = 0.0  # seconds


class Throughput(L.Callback):
    """Logs `perf/*` over each window of `trainer.log_every_n_steps` steps.

    Tokens and FLOP are those of all processes together, gathered once a window; utilisation is
    the average of their GPUs; memory is that of the first process. Time spent in validation and
    on checkpoints is left out.

    Args:
        stopwatch: the trainer's profiler.
        passes: forward passes over a batch; R-Drop makes two.
    """

    def __init__(self, stopwatch: Stopwatch, passes: int = 1) -> None:
        self.stopwatch, self.passes = stopwatch, passes
        self._restart()

    def _restart(self) -> None:
        self._since = time.perf_counter()
        self._data, self._save = (self.stopwatch.seconds[part] for part in ("data", "save"))
        self._work, self._batches = Work(), 0

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self._restart()

    def on_validation_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self._restart()

    def on_train_batch_end(
        self,
        trainer: L.Trainer,
        pl_module: L.LightningModule,
        outputs: Any,
        batch: Batch,
        batch_idx: int,
    ) -> None:
        assert isinstance(pl_module, TranslationTask)
        work, model = self._work, pl_module.model
        work.source += batch.source_tokens
        work.target += batch.target_tokens
        work.positions += batch.source.numel() + batch.labels.numel()
        size = BatchSize(batch.source.size(0), batch.source_tokens, batch.target_tokens)
        work.flops += self.passes * training_flops(model.config, model.vocab_sizes[1], size)
        self._batches += 1
        window = trainer.log_every_n_steps * trainer.accumulate_grad_batches  # type: ignore[attr-defined]
        if (batch_idx + 1) % window == 0:
            self._log(trainer, pl_module)
            self._restart()

    def _log(self, trainer: L.Trainer, pl_module: TranslationTask) -> None:
        device = pl_module.device
        if device.type == "cuda":
            torch.cuda.synchronize()
        saved = self.stopwatch.seconds["save"] - self._save
        seconds = time.perf_counter() - self._since - saved
        self._work.waited = self.stopwatch.seconds["data"] - self._data
        sums = torch.tensor(astuple(self._work), dtype=torch.float64, device=device)
        processes = trainer.world_size
        if processes > 1:
            sums = torch.as_tensor(trainer.strategy.reduce(sums, reduce_op="sum"))
        work = Work(*sums.tolist())
        figures = {
            "source_tokens_per_second": work.source / seconds,
            "target_tokens_per_second": work.target / seconds,
            "padding_share": 1 - (work.source + work.target) / work.positions,
            "step_seconds": seconds * trainer.accumulate_grad_batches / self._batches,
            "data_wait_share": work.waited / processes / seconds,
            "tflops": work.flops / seconds / 1e12,
            "memory_gib": peak_memory(device.type) / 2**30,
        }
        peak = dense_peak(torch.cuda.get_device_name(device)) if device.type == "cuda" else None
        if peak is not None:
            figures["utilisation"] = figures["tflops"] / processes / peak
        pl_module.log_dict({f"perf/{name}": value for name, value in figures.items()})
