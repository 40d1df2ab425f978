"""Throughput of training: real tokens and FLOP per second, padding, waiting, memory."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from seq2seq.data.collate import Batch
from seq2seq.model.flops import training_flops
from seq2seq.model.translation_model import TranslationModel
from seq2seq.training.callbacks import Callback
from seq2seq.training.hardware import dense_peak, peak_memory
from seq2seq.training.trainer import Trainer


class Throughput(Callback):
    """Logs `perf/*` over each window of `trainer.log_every_n_steps` steps.

    Tokens and FLOP are summed over all processes, once per window. Utilisation is the average of
    their GPUs. Memory is that of the first process. Time for validation and checkpoints is
    excluded.
    """

    def __init__(self) -> None:
        self._work = torch.zeros(4, dtype=torch.float64)

    def on_step_end(self, trainer: Trainer, batches: Sequence[Batch]) -> None:
        self._work += sum(work(trainer.model, batch) for batch in batches)
        if not trainer.is_log_step:
            return
        times = trainer.timer.read()
        device, seconds, processes = trainer.device, times.total, trainer.fabric.world_size
        sums = torch.cat([self._work, self._work.new_tensor([times.parts["data"]])])
        sums = trainer.sum_over_processes(sums.to(device))
        source, target, positions, flops, waited = sums.tolist()
        figures = {
            "source_tokens_per_second": source / seconds,
            "target_tokens_per_second": target / seconds,
            "padding_share": 1 - (source + target) / positions,
            "step_seconds": seconds / times.steps,
            "data_wait_share": waited / processes / seconds,
            "tflops": flops / seconds / 1e12,
            "memory_gib": peak_memory(device.type) / 2**30,
        }
        peak = dense_peak(torch.cuda.get_device_name(device)) if device.type == "cuda" else None
        if peak is not None:
            figures["utilisation"] = figures["tflops"] / processes / peak
        trainer.log({f"perf/{name}": value for name, value in figures.items()})
        trainer.timer.restart()
        self._work = torch.zeros_like(self._work)


def work(model: TranslationModel, batch: Batch) -> Tensor:
    """Count real source and target tokens, positions with padding, and FLOP of a batch: (4,)."""
    source, target = batch.source_tokens, batch.target_tokens
    positions = batch.source.numel() + batch.labels.numel()
    sizes = (batch.source.size(0), source, target)
    flops = training_flops(model.config, model.vocab_sizes[1], *sizes)
    return torch.tensor([source, target, positions, flops], dtype=torch.float64)
