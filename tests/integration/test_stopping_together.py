"""Two processes: a signal to one of them stops both, at the same step, with one checkpoint."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time

import pytest
import torch
from conftest import ENVIRONMENT, ROOT, TOY

from seq2seq.training.checkpointing import newest_checkpoint, read_checkpoint, step_of

SETTINGS = ("logger=csv", "trainer=cpu", "trainer.devices=2", "trainer.strategy=ddp",
            "decode=greedy", "decode.batch_tokens=8", "model.dropout=0.2",
            "trainer.val_every_n_steps=20", "checkpoint.every_n_steps=5")


def start_two(*settings: object) -> list[subprocess.Popen[str]]:
    """As torchrun would, but each with an exit code that can be seen."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    address = {"MASTER_ADDR": "localhost", "MASTER_PORT": str(port), "NODE_RANK": "0"}
    return [
        subprocess.Popen(
            [sys.executable, str(ROOT / "scripts" / "train.py"), *map(str, settings)],
            cwd=ROOT, env=ENVIRONMENT | address | {"LOCAL_RANK": str(rank)}, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )
        for rank in (0, 1)
    ]


def finish(processes: list[subprocess.Popen[str]], code: int) -> list[str]:
    printed = [process.communicate(timeout=120)[0] for process in processes]
    assert [process.returncode for process in processes] == [code, code], "\n".join(printed)
    return printed


def wait_for_step(run_dir, step: int, processes: list[subprocess.Popen[str]]) -> None:
    for _ in range(2400):
        if (run_dir / "checkpoints" / f"step-{step:08d}.ckpt").exists():
            return
        for process in processes:
            assert process.poll() is None, process.communicate()[0]
        time.sleep(0.05)
    raise AssertionError(f"no checkpoint of step {step}")


@pytest.fixture(scope="module")
def unbroken(toy_corpus, tmp_path_factory):
    run_dir = tmp_path_factory.mktemp("together") / "run"
    finish(start_two(*TOY, *SETTINGS, f"data.path={toy_corpus}", f"run_dir={run_dir}",
                     "trainer.max_steps=30"), 0)
    return run_dir


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rank", "number", "step"),
    [
        pytest.param(1, signal.SIGTERM, 5, id="the second, training"),
        pytest.param(0, signal.SIGINT, 5, id="the first, training", marks=pytest.mark.slow),
        pytest.param(1, signal.SIGTERM, 20, id="the second, validating", marks=pytest.mark.slow),
    ],
)
def test_a_signal_to_one_stops_both(rank, number, step, unbroken, toy_corpus, tmp_path):
    run_dir = tmp_path / "run"
    settings = (*TOY, *SETTINGS, f"data.path={toy_corpus}", "trainer.max_steps=30")
    processes = start_two(*settings, f"run_dir={run_dir}")
    wait_for_step(run_dir, step, processes)
    if step == 20:
        time.sleep(0.3)  # until the validation has begun
    processes[rank].send_signal(number)
    printed = finish(processes, 128 + number)
    newest = newest_checkpoint(run_dir)
    for text in printed:
        assert f"stopped by {number.name} after step {step_of(newest)}; everything is" in text
        assert "Traceback" not in text
    assert read_checkpoint(newest).content["validated"] == (step_of(newest) != 20)
    assert len(read_checkpoint(newest).content["random_states"]) == 2
    finish(start_two(f"resume={run_dir}"), 0)
    ours, theirs = (torch.load(newest_checkpoint(run), weights_only=True)["model"]
                    for run in (run_dir, unbroken))
    assert all(ours[name].equal(theirs[name]) for name in theirs)
    ours, theirs = (json.loads((run / "summary.json").read_text()) for run in (run_dir, unbroken))
    assert ours["best_val_bleu"] == theirs["best_val_bleu"]


@pytest.mark.slow
def test_the_processes_draw_other_numbers_and_one_says_it_goes_on_alone(unbroken, script, tmp_path):
    newest = newest_checkpoint(unbroken)
    states = read_checkpoint(newest).content["random_states"]
    assert not states[0]["torch"].equal(states[1]["torch"])
    result = script("train", f"resume={unbroken}", "trainer.devices=1", "trainer.strategy=auto",
                    "trainer.accumulate=2", "trainer.max_steps=32")
    assert result.returncode == 0, result.stdout + result.stderr
    assert "continues with 1 processes instead of 2" in result.stdout
    assert "not the same to the bit" in result.stdout
