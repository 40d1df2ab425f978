"""What training achieves: real tokens and FLOP per second, padding, waiting, memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING

import torch

from seq2seq.callbacks import Callback
from seq2seq.data.collate import Batch
from seq2seq.model.flops import BatchSize, training_flops
from seq2seq.model.translation_model import TranslationModel
from seq2seq.training.hardware import dense_peak, peak_memory
from seq2seq.training.timing import Times

if TYPE_CHECKING:
    from seq2seq.training.trainer import Trainer


@dataclass
class Work:
    """What some batches held."""

    source: float = 0.0  # real tokens
    target: float = 0.0
    positions: float = 0.0  # padding included
    flops: float = 0.0
    waited: float = 0.0  # seconds for data

    def add(self, model: TranslationModel, batch: Batch, passes: int) -> None:
        """Count a batch that went through the model `passes` times."""
        self.source += batch.source_tokens
        self.target += batch.target_tokens
        self.positions += batch.source.numel() + batch.labels.numel()
        size = BatchSize(batch.source.size(0), batch.source_tokens, batch.target_tokens)
        self.flops += passes * training_flops(model.config, model.vocab_sizes[1], size)


class Throughput(Callback):
    """Logs `perf/*` over each window of `trainer.log_every_n_steps` steps.

    Tokens and FLOP are those of all processes together, gathered once a window; utilisation is
    the average of their GPUs; memory is that of the first process. Time spent in validation and
    on checkpoints is left out.

    Args:
        passes: forward passes over a batch; R-Drop makes two.
    """

    def __init__(self, passes: int = 1) -> None:
        self.passes = passes
        self._work, self._before = Work(), Times()

    def on_step_end(self, trainer: Trainer, batches: Sequence[Batch]) -> None:
        for batch in batches:
            self._work.add(trainer.model, batch, self.passes)
        if trainer.is_log_step:
            now = trainer.timer.read()
            self._log(trainer, now - self._before)
            self._work, self._before = Work(), now

    def _log(self, trainer: Trainer, times: Times) -> None:
        device, seconds = trainer.device, times.total
        self._work.waited = times.parts["data"]
        sums = torch.tensor(astuple(self._work), dtype=torch.float64, device=device)
        processes = trainer.fabric.world_size
        work = Work(*trainer.sum_over_processes(sums).tolist())
        figures = {
            "source_tokens_per_second": work.source / seconds,
            "target_tokens_per_second": work.target / seconds,
            "padding_share": 1 - (work.source + work.target) / work.positions,
            "step_seconds": seconds / times.steps,
            "data_wait_share": work.waited / processes / seconds,
            "tflops": work.flops / seconds / 1e12,
            "memory_gib": peak_memory(device.type) / 2**30,
        }
        peak = dense_peak(torch.cuda.get_device_name(device)) if device.type == "cuda" else None
        if peak is not None:
            figures["utilisation"] = figures["tflops"] / processes / peak
        trainer.log({f"perf/{name}": value for name, value in figures.items()})
