"""Running out of memory: what it looks like, and what a user can do."""

from __future__ import annotations

import os
import re
from pathlib import Path

import torch

from seq2seq.config import TrainConfig
from seq2seq.data.collate import Batch
from seq2seq.errors import RunError
from seq2seq.training.hardware import peak_memory

# torch.OutOfMemoryError is what CUDA's allocator raises; others are a mere RuntimeError.
MESSAGES = "can't allocate memory|not enough memory|out of memory|STATUS_ALLOC_FAILED"


def ran_out(error: BaseException) -> bool:
    """Whether an error says that memory ran out, of the GPU or of the machine."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and re.search(MESSAGES, str(error)) is not None


class OutOfMemory(RunError):
    """Memory ran out."""

    def __init__(self, batch: Batch | None, config: TrainConfig, run_dir: Path, accelerator: str):
        t = config.trainer
        go_on = f"To go on: python scripts/train.py resume={run_dir}"
        # Weights that training starts from say how large the model is.
        smaller = [] if config.init_from else ["a smaller model"]
        used = f"{_gib(*_peak_and_total(accelerator))} taken"
        if batch is None:
            half = max(1, config.decode.batch_tokens // 2)
            changes = "; or ".join([f"a smaller decode.beam={config.decode.beam}", *smaller])
            super().__init__(
                f"out of memory in a validation, or before the first step ({used}). {go_on} "
                f"decode.batch_tokens={half}, which translates half as much at once. For a new "
                f"run: {changes}"
            )
            return
        sentences, source_length = batch.source.shape
        text = (
            f"out of memory with a batch of {sentences} sentences x {source_length} source x "
            f"{batch.labels.size(1)} target tokens ({used}). {go_on} where more memory is free."
        )
        changes = "; or ".join(
            [
                f"lower data.max_tokens={config.data.max_tokens} and raise trainer.accumulate="
                f"{t.accumulate} by the same factor, which learns the same",
                *smaller,
                "trainer.precision=bf16-mixed, if it is not that already",
            ]
        )
        super().__init__(f"{text} For a new run: {changes}")


def _peak_and_total(accelerator: str) -> tuple[int, int]:
    """Bytes of the GPU or the machine: most that this process ever had, and all there are."""
    if accelerator == "gpu":
        return peak_memory("cuda"), torch.cuda.get_device_properties().total_memory
    return peak_memory("cpu"), os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _gib(peak: int, total: int) -> str:
    return f"up to {peak / 2**30:.1f} of {total / 2**30:.1f} GiB"
