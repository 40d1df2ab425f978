"""Running out of memory is recognised, and said with what a user can change."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from seq2seq.config import DecodeConfig, TrainerConfig, may_change
from seq2seq.data.collate import Batch
from seq2seq.errors import RunError
from seq2seq.training.failures import plain_failures
from seq2seq.training.hardware import ran_out

CPU_MESSAGE = (
    "[enforce fail at alloc_cpu.cpp:117] err == 0. DefaultCPUAllocator: can't allocate memory: you "
    "tried to allocate 8589934592 bytes. Error code 12 (Cannot allocate memory)"
)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB."), True),
        (RuntimeError(CPU_MESSAGE), True),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate"), True),
        (MemoryError(), True),
        (RuntimeError("mat1 and mat2 shapes cannot be multiplied"), False),
        (KeyError("memory"), False),
    ],
)
def test_what_running_out_of_memory_looks_like(error, expected):
    assert ran_out(error) == expected


def test_a_real_allocation_that_fails_is_recognised():
    with pytest.raises(RuntimeError) as raised:
        torch.empty(2**46)
    assert ran_out(raised.value)


IDS = torch.zeros(8, 5, dtype=torch.long)
BATCH = Batch(IDS, IDS[:, :3], IDS[:, :3], 0, 0)


def message(batch: Batch | None) -> str:
    trainer = SimpleNamespace(
        batch=batch, device=torch.device("cpu"), max_tokens=4096,
        config=TrainerConfig(accumulate=4),
        validation=SimpleNamespace(decode=DecodeConfig(beam=5, batch_tokens=4096)),
    )  # fmt: skip
    with pytest.raises(RunError) as raised, plain_failures(Path("runs/x"), trainer):
        raise MemoryError
    return str(raised.value)


def test_the_message_says_what_the_batch_was_and_what_to_lower():
    text = message(BATCH)
    assert "a batch of 8 sentences x 5 source x 3 target tokens (up to" in text
    for hint in ("lower data.max_tokens=4096 and raise trainer.accumulate=4 by the same factor",
                 "a smaller model", "precision", "GiB"):  # fmt: skip
        assert hint in text


def test_outside_of_steps_the_search_is_to_blame_and_may_be_made_smaller():
    text = message(None)
    assert "out of memory in a validation" in text
    assert "resume=runs/x decode.batch_tokens=2048. For a new run: a smaller decode.beam=5" in text
    assert may_change("decode.batch_tokens")
    assert not may_change("decode.beam")


def test_before_the_first_step_the_model_is_too_large():
    with pytest.raises(RunError, match="a smaller model"), plain_failures(Path("runs/x")):
        raise MemoryError
