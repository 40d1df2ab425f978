"""Batches in parts are the same batches; running out of memory is explained."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tiny import tiny_recurrent, tiny_transformer
from tiny_training import Recorder, tiny_batch, tiny_fit, tiny_task

from seq2seq.config import OptimConfig, TrainConfig, TrainerConfig, may_change
from seq2seq.data.collate import Batch
from seq2seq.training.memory import OutOfMemory, ran_out
from seq2seq.training.task import TranslationTask

CPU_MESSAGE = (
    "[enforce fail at alloc_cpu.cpp:117] err == 0. DefaultCPUAllocator: can't allocate memory: you "
    "tried to allocate 8589934592 bytes. Error code 12 (Cannot allocate memory)"
)


def gradients(split: int, model) -> tuple[list[torch.Tensor], torch.Tensor]:
    task = TranslationTask(model, OptimConfig(), 1.0, max_tokens=64, split=split)
    task.model.zero_grad()
    loss = task.training_step(tiny_batch(0), 0)
    loss.backward()
    [(sums, _)] = task._window
    return [p.grad.clone() for p in model.parameters()], torch.stack([loss.detach(), sums.nll])


@pytest.mark.parametrize("make", [tiny_transformer, tiny_recurrent])
@pytest.mark.parametrize("split", [2, 3, 5])
def test_parts_have_the_sums_and_gradients_of_the_whole_even_more_parts_than_rows(make, split):
    model = make()
    whole, in_parts = gradients(1, model), gradients(split, model)
    torch.testing.assert_close(in_parts, whole)


def test_steps_in_parts_are_steps():
    whole, in_parts = Recorder(), Recorder()
    task = tiny_task()
    task.split = 2
    tiny_fit(tiny_task(), [whole], 6)
    tiny_fit(task, [in_parts], 6)
    assert in_parts.nll == pytest.approx(whole.nll, rel=1e-4)


def test_dropout_is_the_same_when_a_part_is_computed_again(monkeypatch):
    """Else the gradient would be that of another function than the loss."""
    model = tiny_transformer(dropout=0.3, attention_dropout=0.2).train()

    def seeded() -> tuple[list[torch.Tensor], torch.Tensor]:
        torch.manual_seed(0)
        return gradients(2, model)

    again = seeded()
    monkeypatch.setattr("seq2seq.training.task.checkpoint", lambda f, *args, **_: f(*args))
    once = seeded()  # nothing is computed again
    torch.testing.assert_close(again, once)
    torch.manual_seed(1)
    assert not gradients(2, model)[1].equal(once[1])


def test_fewer_activations_are_kept_for_the_backward_pass():
    kept = []

    def count(split: int) -> int:
        kept.clear()
        task = TranslationTask(tiny_transformer(), OptimConfig(), 1.0, max_tokens=64, split=split)
        with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t.numel()), print):
            task.training_step(tiny_batch(0), 0)
        return sum(kept)

    whole, parts = count(1), count(3)
    assert parts < 0.1 * whole


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


def batch(rows: int) -> Batch:
    ids = torch.zeros(rows, 5, dtype=torch.long)
    return Batch(ids, ids[:, :3], ids[:, :3], 0, 0)


def test_the_message_says_what_the_batch_was_and_what_to_lower():
    config = TrainConfig(trainer=TrainerConfig(accumulate=4))
    text = str(OutOfMemory(batch(8), config, Path("runs/x"), "cpu"))
    assert "a batch of 8 sentences x 5 source x 3 target tokens (" in text
    for hint in ("data.max_tokens=", "trainer.accumulate=4", "smaller model", "precision", "GiB"):
        assert hint in text


def test_outside_of_steps_the_search_is_to_blame_and_may_be_made_smaller():
    error = OutOfMemory(None, TrainConfig(), Path("runs/x"), "cpu")
    assert "out of memory in a validation" in str(error)
    assert "To go on: python scripts/train.py resume=runs/x decode.batch_tokens=2048," in str(error)
    assert "For a new run: a smaller decode.beam=5; or a smaller model" in str(error)
    assert may_change("decode.batch_tokens")
    assert not may_change("decode.beam")


@pytest.mark.parametrize("rows", [batch(8), None], ids=["training", "validation"])
def test_a_model_that_training_starts_from_cannot_be_smaller(rows):
    for init_from, smaller in ((None, True), ("runs/old", False)):
        config = TrainConfig(init_from=init_from)
        text = str(OutOfMemory(rows, config, Path("runs/x"), "cpu"))
        assert ("a smaller model" in text) == smaller
        assert "To go on: python scripts/train.py resume=runs/x " in text  # works for both
