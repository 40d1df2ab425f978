"""The proof of exact resumption: runs killed at random moments end with the same weights.

    pytest -m slow -s tests/integration/test_kills.py            # prints the tables
    KILLS=5 pytest -m slow -s tests/integration/test_kills.py
    KILLS=200 SEED=1 pytest -m slow -s tests/integration/test_kills.py -k life
"""

from __future__ import annotations

import csv
import hashlib
import os
import random
import shutil
import signal
import time
from collections import Counter
from multiprocessing.process import BaseProcess
from pathlib import Path

import forked
import pytest
import torch
from conftest import ENVIRONMENT, ROOT, TOY

from seq2seq.training.checkpointing import newest_checkpoint, read_checkpoint, step_of

KILLS = int(os.environ.get("KILLS", "20"))
SETTINGS = (
    *TOY, "logger=csv", "decode=greedy", "trainer.max_steps=300", "trainer.val_every_n_steps=60",
    "checkpoint.every_n_steps=20", "optim.ema=0.99", "data.num_workers=2", "data.max_tokens=512",
    "model.d_model=32", "model.d_ff=64", "model.encoder_layers=1", "model.decoder_layers=1",
    "model.dropout=0.2", "model.attention_dropout=0.1",
)  # fmt: skip


def start(*settings: object) -> forked.Command:
    return forked.Command(ROOT / "scripts" / "train.py", *settings, cwd=ROOT, env=ENVIRONMENT)


def logged_step(run_dir: Path) -> int:
    """The last step that the curves show; every fifth is logged."""
    curves = run_dir / "metrics" / "version_0" / "metrics.csv"
    if not curves.exists():
        return 0
    with curves.open() as file:
        return max((int(row["step"] or 0) + 1 for row in csv.DictReader(file)), default=0)


def finish(process: forked.Command) -> None:
    printed = "".join(process.communicate(timeout=300))
    assert process.returncode == 0, printed


def killed_run(run_dir: Path, corpus: Path, number: int, step: int, seconds: float) -> bool:
    """Train, and kill so many seconds after some step; False if it had ended by then."""
    process = start(*SETTINGS, f"data.path={corpus}", f"run_dir={run_dir}")
    while not (run_dir / "train.log").exists() or logged_step(run_dir) < step // 5 * 5:
        if process.poll() is not None:
            break
        time.sleep(0.01)
    time.sleep(seconds)
    process.send_signal(number)
    process.communicate(timeout=60)
    stopped = process.returncode in (-number, 128 + number)
    return stopped and not (run_dir / "summary.json").exists()


def end_of(run_dir: Path, steps: int = 300) -> str:
    """SHA-256 of the last weights, their average, and the bundle."""
    newest = newest_checkpoint(run_dir)
    assert newest is not None
    assert step_of(newest) == steps
    content = torch.load(newest, weights_only=True)
    digest = hashlib.sha256()
    for tensors in (content["model"], content["ema"]["shadow"]):
        for name, value in sorted(tensors.items()):
            digest.update(name.encode() + value.numpy().tobytes())
    digest.update((run_dir / "bundle" / "model.safetensors").read_bytes())
    return digest.hexdigest()


@pytest.mark.slow
def test_killed_at_random_moments_and_resumed_it_ends_the_same(toy_corpus, tmp_path):
    whole = tmp_path / "whole"
    finish(start(*SETTINGS, f"data.path={toy_corpus}", f"run_dir={whole}"))
    expected = end_of(whole)
    print(f"\nunbroken: sha256 {expected[:16]}")
    print("| run | signal | at step | last saved | its validation | sha256 | equal |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    draw, ends = random.Random(0), []
    while len(ends) < KILLS:
        run_dir = tmp_path / f"run{len(ends)}-{draw.getrandbits(20)}"
        number = signal.SIGTERM if len(ends) % 4 == 3 else signal.SIGKILL
        moment = draw.randrange(300), draw.uniform(0, 0.3)
        if not killed_run(run_dir, toy_corpus, number, *moment):
            continue  # it had ended already
        newest, reached = newest_checkpoint(run_dir), logged_step(run_dir)
        step = step_of(newest) if newest else 0
        owed = "owed" if newest and not read_checkpoint(newest).content["validated"] else ""
        finish(start(f"resume={run_dir}"))
        ends.append(end_of(run_dir))
        print(
            f"| {len(ends)} | {number.name} | {reached} to {reached + 5} | step {step} | {owed} "
            f"| {ends[-1][:16]} | {'yes' if ends[-1] == expected else 'NO'} |",
            flush=True,
        )
    assert ends == [expected] * KILLS


SHORT = ("trainer.max_steps=40", "trainer.val_every_n_steps=20", "checkpoint.every_n_steps=10",
         "trainer.val_pairs=8", "data.num_workers=0")  # fmt: skip


def begin(log: Path, *arguments: object) -> BaseProcess:
    """`scripts/train.py` as `start` starts it, without the seconds in which torch is imported."""
    log.unlink(missing_ok=True)
    script = ROOT / "scripts" / "train.py"
    return forked.begin(
        script, *arguments, cwd=ROOT, env=ENVIRONMENT, streams=[Path(os.devnull), log, log]
    )


def appeared(path: Path) -> float:
    """Wait for a file or a folder; returns the time."""
    while not path.exists():
        time.sleep(0.001)
    return time.monotonic()


def ended(process: BaseProcess, log: Path) -> str:
    """Wait until it has ended well; returns what it printed."""
    process.join(300)
    printed = log.read_text()
    assert process.exitcode == 0 or "is finished" in printed, printed
    return printed


@pytest.mark.slow
def test_killed_at_any_moment_of_its_life_it_ends_the_same(toy_corpus, tmp_path):
    """From the first file to the report: `resume=` goes on; without settings the command begins."""
    whole, log = tmp_path / "whole", tmp_path / "log"
    command = [*SETTINGS, *SHORT, f"data.path={toy_corpus}"]
    ended(begin(log, *command, f"run_dir={tmp_path / 'first'}"), log)  # prepares the data
    lives = []
    for _ in range(3):  # up to the last file; to leave takes as long again
        shutil.rmtree(whole, ignore_errors=True)
        process = begin(log, *command, f"run_dir={whole}")
        began = appeared(whole)
        lives.append(appeared(whole / "report.html") - began)
        ended(process, log)
    life = min(lives)
    expected = end_of(whole, steps=40)
    files = {path.name for path in whole.iterdir()}
    draw = random.Random(int(os.environ.get("SEED", "0")))
    killed, found = 0, Counter[str]()
    while killed < KILLS:
        run_dir = tmp_path / f"run{draw.getrandbits(40)}"
        process = begin(log, *command, f"run_dir={run_dir}")
        appeared(run_dir)
        time.sleep(draw.uniform(0, life))
        process.kill()
        process.join(60)
        killed += process.exitcode == -signal.SIGKILL and not (run_dir / "report.html").exists()
        before = {path.name for path in run_dir.iterdir()} if run_dir.is_dir() else set()
        going_on, saved = "config.yaml" in before, any(run_dir.glob("checkpoints/*.ckpt"))
        given = [f"resume={run_dir}"] if going_on else [*command, f"run_dir={run_dir}"]
        finished = "is finished" in ended(begin(log, *given), log)  # killed behind its report
        assert end_of(run_dir, steps=40) == expected, run_dir
        assert files <= {path.name for path in run_dir.iterdir()}
        found["finished" if finished else "report" if "summary.json" in before else
              "after a checkpoint" if saved else
              "before a checkpoint" if going_on else "before settings"] += 1  # fmt: skip
        shutil.rmtree(run_dir)
    print(f"\n{killed} kills within {life:.1f} s: all end with {expected[:16]}; {dict(found)}")
