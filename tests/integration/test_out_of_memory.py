"""A run that memory does not suffice for goes on with smaller parts, to the same weights."""

from __future__ import annotations

import logging

import pytest
import torch
from conftest import toy_settings
from seq2seq.training.memory import OutOfMemory
from seq2seq.training.run import train

from seq2seq.model.transformer import Transformer

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


def weights(run_dir) -> dict[str, torch.Tensor]:
    last = sorted((run_dir / "checkpoints").glob("step-*.ckpt"))[-1]
    return torch.load(last, weights_only=True)["state_dict"]


@pytest.mark.parametrize(
    "works",
    [
        pytest.param(0, id="from the start", marks=pytest.mark.slow),
        pytest.param(10, id="from a checkpoint"),
    ],
)
def test_a_run_goes_on_with_twice_the_parts_until_they_fit(
    works, toy_corpus, tmp_path, monkeypatch, caplog
):
    caplog.set_level(logging.INFO, logger="seq2seq")  # as the command does
    common = (f"data.path={toy_corpus}", "logger=none", "trainer.max_steps=14", "decode=greedy",
              "checkpoint.every_n_steps=4", "trainer.val_every_n_steps=100", "trainer.val_pairs=4")
    train(toy_settings(*common, f"run_dir={tmp_path / 'unbroken'}"))

    forward, tried = Transformer.forward, []

    def small_machine(model, source, *others):
        """After so many training steps, only parts of up to 40 sentences fit."""
        if model.training:
            tried.append(len(source))
            if len(tried) > works and len(source) > 40:
                raise RuntimeError(MESSAGE)
        return forward(model, source, *others)

    monkeypatch.setattr(Transformer, "forward", small_machine)
    run_dir = tmp_path / "run"
    with pytest.raises(OutOfMemory, match=r"a batch of \d+ sentences x \d+ source x \d+ target"):
        train(toy_settings(*common, f"run_dir={run_dir}"))
    rows = tried[-1]
    resumed = toy_settings(*common, f"run_dir={run_dir}", "trainer.halve_on_oom=true")
    resumed.resume = str(run_dir)
    train(resumed)
    assert max(tried[-10:]) <= 40 < rows

    text = (run_dir / "train.log").read_text(encoding="utf-8")
    assert "out of memory: going on with trainer.split=2" in text
    assert ("resuming    after step 8" in text) == (works > 0)
    assert (run_dir / "summary.json").is_file()
    ours, theirs = weights(run_dir), weights(tmp_path / "unbroken")
    # A bias of keys changes nothing, so its gradient is mere rounding, which AdamW makes large.
    for name in (name for name in theirs if not name.endswith("k_proj.bias")):
        torch.testing.assert_close(ours[name], theirs[name], rtol=1e-3, atol=1e-5, msg=name)
