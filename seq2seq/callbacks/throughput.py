"""Real tokens per second, padding and memory, while training."""

from __future__ import annotations

import time
from typing import Any

import lightning as L
import torch

from seq2seq.data.collate import Batch
from seq2seq.training.hardware import peak_memory


class Throughput(L.Callback):
    """Logs `perf/*` over each window of `trainer.log_every_n_steps` steps of this process.

    Time spent in validation and on checkpoints is left out.
    """

    def __init__(self) -> None:
        self._restart()

    def _restart(self) -> None:
        self._since = time.perf_counter()
        self._source = self._target = self._positions = 0

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
        self._source += batch.source_tokens
        self._target += batch.target_tokens
        self._positions += batch.source.numel() + batch.labels.numel()
        window = trainer.log_every_n_steps * trainer.accumulate_grad_batches  # type: ignore[attr-defined]
        if (batch_idx + 1) % window:
            return
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        seconds = time.perf_counter() - self._since
        pl_module.log("perf/source_tokens_per_second", self._source / seconds)
        pl_module.log("perf/target_tokens_per_second", self._target / seconds)
        padding = 1 - (self._source + self._target) / self._positions
        pl_module.log("perf/padding_share", padding)
        pl_module.log("perf/memory_gib", peak_memory(pl_module.device.type) / 2**30)
        self._restart()
