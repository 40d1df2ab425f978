"""A run that memory does not suffice for ends in one message, and its state is saved."""

from __future__ import annotations

import pytest
import torch
from conftest import toy_settings

from seq2seq.errors import RunError
from seq2seq.model.transformer import Transformer
from seq2seq.training.checkpointing import newest_checkpoint, step_of
from seq2seq.training.train import train

MESSAGE = (
    "[enforce fail at alloc_cpu.cpp:117] err == 0. DefaultCPUAllocator: can't allocate memory: you "
    "tried to allocate 8589934592 bytes. Error code 12 (Cannot allocate memory)"
)


@pytest.fixture(autouse=True)
def _one_thread():
    threads, precision = torch.get_num_threads(), torch.get_float32_matmul_precision()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
    torch.set_float32_matmul_precision(precision)


@pytest.mark.parametrize("training", [True, False], ids=["training", "validation"])
def test_it_is_said_where_memory_ran_out_and_how_to_go_on(
    training, toy_corpus, tmp_path, monkeypatch
):
    forward, seen = Transformer.forward, []

    def small_machine(model, source, *others):
        seen.append(model.training)
        if model.training == training and seen.count(training) > 5 * training:
            raise RuntimeError(MESSAGE)
        return forward(model, source, *others)

    monkeypatch.setattr(Transformer, "forward", small_machine)
    settings = toy_settings(
        f"data.path={toy_corpus}", f"run_dir={tmp_path / 'run'}", "logger=none", "decode=greedy",
        "trainer.max_steps=6", "checkpoint.every_n_steps=4", "trainer.val_pairs=4",
    )  # fmt: skip
    words = r"a batch of \d+ sentences x \d+ source x" if training else "in a validation"
    with pytest.raises(RunError, match=f"out of memory .*{words}"):
        train(settings)
    assert step_of(newest_checkpoint(tmp_path / "run")) == (4 if training else 6)
