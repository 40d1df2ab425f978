"""Two processes train to the weights of one that accumulates the same batches."""

from __future__ import annotations

import json
import sys

import pytest
import torch
from conftest import ROOT, TOY, run_command

SETTINGS = ("logger=csv", "trainer=cpu", "trainer.max_steps=12", "decode=greedy")


def weights(run_dir):
    last = sorted((run_dir / "checkpoints").glob("step-*.ckpt"))[-1]
    return torch.load(last, weights_only=True)["state_dict"]


def test_two_processes_equal_one_that_accumulates(script, toy_corpus, tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    result = script("train", *TOY, *SETTINGS, f"data.path={toy_corpus}", f"run_dir={one}",
                    "trainer.accumulate=2")
    assert result.returncode == 0, result.stdout + result.stderr
    result = run_command(
        sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", "--standalone",
        ROOT / "scripts" / "train.py", *TOY, *SETTINGS, f"data.path={toy_corpus}",
        f"run_dir={two}", "trainer.devices=2", "trainer.strategy=ddp",
    )
    assert result.returncode == 0, result.stdout + result.stderr
    ours, theirs = weights(two), weights(one)
    for name in theirs:
        torch.testing.assert_close(ours[name], theirs[name], rtol=1e-4, atol=1e-5, msg=name)
    scores = [json.loads((run / "summary.json").read_text())["best_val_bleu"] for run in (one, two)]
    assert scores[0] == pytest.approx(scores[1], abs=0.5)


def test_one_process_goes_on_where_two_were_stopped(script, toy_corpus, tmp_path):
    """From the same place in the data: together they use the batches of one that never stopped."""
    one, two = tmp_path / "one", tmp_path / "two"
    common = (*TOY, "logger=csv", "trainer=cpu", "decode=greedy", f"data.path={toy_corpus}")
    result = script("train", *common, f"run_dir={one}", "trainer.accumulate=2",
                    "trainer.max_steps=10")
    assert result.returncode == 0, result.stdout + result.stderr
    result = run_command(
        sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", "--standalone",
        ROOT / "scripts" / "train.py", *common, f"run_dir={two}", "trainer.devices=2",
        "trainer.strategy=ddp", "trainer.max_steps=6", "data.num_workers=2",
    )
    assert result.returncode == 0, result.stdout + result.stderr
    result = script("train", f"resume={two}", "trainer.devices=1", "trainer.strategy=auto",
                    "trainer.accumulate=2", "trainer.max_steps=10", "data.num_workers=0")
    assert result.returncode == 0, result.stdout + result.stderr
    ours, theirs = weights(two), weights(one)
    for name in theirs:
        torch.testing.assert_close(ours[name], theirs[name], rtol=1e-4, atol=1e-5, msg=name)


def test_several_processes_need_a_folder_that_they_agree_on(script):
    result = script("train", "trainer=cpu", "trainer.devices=2")
    assert result.returncode == 1
    assert "several processes must agree on one folder" in result.stderr
