"""A run that was stopped and resumed ends with the very weights of one that was not."""

from __future__ import annotations

import csv
import json
import os
import resource
import shutil
import signal
import time
from pathlib import Path

import pytest
from conftest import ENVIRONMENT, ROOT, TOY
from forked import Command

from seq2seq.training.checkpointing import newest_checkpoint, read_checkpoint, step_of

# Small batches make the search of a validation take its time.
STEPS = ("decode.batch_tokens=16", "decode=greedy", "trainer.val_every_n_steps=20",
         "checkpoint.every_n_steps=8", "model.dropout=0.2", "model.attention_dropout=0.1",
         "logger=csv")


def start(*settings: object) -> Command:
    return Command(ROOT / "scripts" / "train.py", *settings, cwd=ROOT, env=ENVIRONMENT)


def wait_for(path: Path, process: Command, text: str = "") -> None:
    for _ in range(2400):
        if path.exists() and text in path.read_text(errors="replace"):
            return
        assert process.poll() is None, process.communicate()[0]
        time.sleep(0.05)
    raise AssertionError(f"{path} never appeared")


def weights(run_dir: Path) -> dict:
    import torch

    last = sorted((run_dir / "checkpoints").glob("step-*.ckpt"))[-1]
    return torch.load(last, weights_only=True)["model"]


@pytest.fixture(scope="module")
def unbroken(script, toy_corpus, tmp_path_factory) -> Path:
    """40 steps in one go, over more than one epoch, with two validations."""
    run_dir = tmp_path_factory.mktemp("unbroken") / "run"
    result = script("train", *TOY, *STEPS, f"data.path={toy_corpus}", f"run_dir={run_dir}",
                    "trainer.max_steps=40")
    assert result.returncode == 0, result.stdout + result.stderr
    return run_dir


def assert_same_end(run_dir: Path, unbroken: Path) -> None:
    ours, theirs = weights(run_dir), weights(unbroken)
    assert ours.keys() == theirs.keys()
    for name in theirs:
        assert ours[name].equal(theirs[name]), name
    ours_bundle = (run_dir / "bundle" / "model.safetensors").read_bytes()
    assert ours_bundle == (unbroken / "bundle" / "model.safetensors").read_bytes()
    samples = (unbroken / "samples.jsonl").read_text(encoding="utf-8")
    assert len(samples.splitlines()) == 2
    assert (run_dir / "samples.jsonl").read_text(encoding="utf-8") == samples


def test_kill_9_loses_nothing_but_the_time_since_the_last_checkpoint(
    unbroken, script, toy_corpus, tmp_path
):
    run_dir = tmp_path / "run"
    process = start(*TOY, *STEPS, f"data.path={toy_corpus}", f"run_dir={run_dir}",
                    "trainer.max_steps=40", "data.num_workers=1")
    wait_for(run_dir / "checkpoints" / "step-00000016.ckpt", process)
    process.send_signal(signal.SIGKILL)
    process.wait()
    result = script("train", f"resume={run_dir}")
    assert result.returncode == 0, result.stdout + result.stderr
    assert (run_dir / "summary.json").exists()
    assert_same_end(run_dir, unbroken)


@pytest.mark.parametrize(
    ("number", "code"),
    [pytest.param(signal.SIGINT, 130, marks=pytest.mark.slow), (signal.SIGTERM, 143)],
)
def test_a_signal_saves_says_how_to_resume_and_has_its_own_exit_code(
    number, code, unbroken, script, toy_corpus, tmp_path
):
    run_dir = tmp_path / "run"
    process = start(*TOY, *STEPS, f"data.path={toy_corpus}", f"run_dir={run_dir}",
                    "trainer.max_steps=100000", "data.num_workers=1")
    wait_for(run_dir / "checkpoints" / "step-00000008.ckpt", process)
    os.killpg(process.pid, number)  # as a terminal does: the loader's workers get it too
    printed = "".join(process.communicate(timeout=120))
    assert process.returncode == code, printed
    assert f"resume={run_dir}" in printed
    assert "Traceback" not in printed
    stopped_at = int(sorted((run_dir / "checkpoints").iterdir())[-1].stem.removeprefix("step-"))
    assert f"after step {stopped_at};" in printed
    if stopped_at < 40:  # else the machine was faster than we
        result = script("train", f"resume={run_dir}", "trainer.max_steps=40")
        assert result.returncode == 0, result.stdout + result.stderr
        assert "trainer.max_steps was 100000, and is 40 from now on" in result.stdout
        assert "max_steps: 40\n" in (run_dir / "config.yaml").read_text()
        assert_same_end(run_dir, unbroken)


def curves(run_dir: Path) -> list[dict[str, str]]:
    """The logged rows, without what is measured by the clock."""
    with (run_dir / "metrics" / "version_0" / "metrics.csv").open() as file:
        rows = list(csv.DictReader(file))
    clock = ("perf/", "decode/sentences_per_second", "decode/tokens_per_second")
    return [{k: v for k, v in row.items() if not k.startswith(clock)} for row in rows]


@pytest.mark.parametrize(
    ("step", "number", "code"),
    [
        pytest.param(20, signal.SIGTERM, 143, id="first, term", marks=pytest.mark.slow),
        pytest.param(20, signal.SIGKILL, -9, id="first, kill"),
        pytest.param(40, signal.SIGTERM, 143, id="last, term", marks=pytest.mark.slow),
        pytest.param(40, signal.SIGKILL, -9, id="last, kill", marks=pytest.mark.slow),
    ],
)
def test_a_validation_that_was_broken_off_is_made_up_for(
    step, number, code, unbroken, script, toy_corpus, tmp_path
):
    run_dir = tmp_path / "run"
    process = start(*TOY, *STEPS, f"data.path={toy_corpus}", f"run_dir={run_dir}",
                    "trainer.max_steps=40")
    wait_for(run_dir / "checkpoints" / f"step-{step:08d}.ckpt", process)
    # Its row is written right after it, and then the validation begins.
    wait_for(run_dir / "metrics" / "version_0" / "metrics.csv", process, f",{step - 1},")
    process.send_signal(number)
    sent = time.monotonic()
    printed = "".join(process.communicate(timeout=60))
    assert time.monotonic() - sent < 30  # it takes 2 on an idle machine
    assert process.returncode == code, printed
    newest = newest_checkpoint(run_dir)
    assert step_of(newest) == step
    assert not read_checkpoint(newest).content["validated"]
    assert f"step {step}: validation BLEU" not in printed
    result = script("train", f"resume={run_dir}")
    assert result.returncode == 0, result.stdout + result.stderr
    assert f"step {step}: validation BLEU" in result.stdout
    assert_same_end(run_dir, unbroken)
    assert curves(run_dir) == curves(unbroken)
    ours, theirs = (json.loads((run / "summary.json").read_text()) for run in (run_dir, unbroken))
    assert ours | {"seconds": 0} == theirs | {"seconds": 0}


def test_a_full_disk_keeps_the_last_checkpoint_and_says_how_to_go_on(
    unbroken, script, toy_corpus, tmp_path
):
    run_dir = tmp_path / "run"
    process = start(*TOY, *STEPS, f"data.path={toy_corpus}", f"run_dir={run_dir}",
                    "trainer.max_steps=40")
    wait_for(run_dir / "checkpoints" / "step-00000008.ckpt", process)
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (10**5, 10**5))  # bytes of any file
    printed = "".join(process.communicate(timeout=60))
    assert process.returncode == 1, printed
    assert "File too large. Make room or correct the folder's permissions" in printed
    assert f"seq2seq train resume={run_dir}" in printed
    assert "Traceback" not in printed
    assert all(path.suffix == ".ckpt" for path in (run_dir / "checkpoints").iterdir())
    result = script("train", f"resume={run_dir}")
    assert result.returncode == 0, result.stdout + result.stderr
    assert_same_end(run_dir, unbroken)


def test_a_finished_run_says_that_it_is_finished(unbroken, script):
    result = script("train", f"resume={unbroken}")
    assert result.returncode == 1
    assert "is finished: it has made all 40 steps" in result.stderr
    assert "trainer.max_steps=80" in result.stderr


def test_the_rate_falls_when_a_run_that_goes_on_is_told_so(script, toy_corpus, tmp_path):
    run_dir = tmp_path / "run"
    result = script("train", *TOY, "logger=csv", f"run_dir={run_dir}", f"data.path={toy_corpus}",
                    "trainer.max_steps=4", "trainer.log_every_n_steps=1", "optim.schedule=wsd",
                    "optim.lr=1e-3", "optim.warmup_steps=1", "optim.decay_steps=1")
    assert result.returncode == 0, result.stdout + result.stderr
    result = script("train", f"resume={run_dir}", "trainer.max_steps=8", "optim.decay_steps=4")
    assert result.returncode == 0, result.stdout + result.stderr
    rates = [float(row["optim/lr"]) for row in curves(run_dir) if row["optim/lr"]]
    assert rates[-4:] == pytest.approx([1e-3 * (1 - (n / 4) ** 0.5) for n in (1, 2, 3, 4)])


def test_a_damaged_checkpoint_is_passed_over_for_the_one_before(
    unbroken, script, tmp_path
):
    run_dir = tmp_path / "run"
    shutil.copytree(unbroken, run_dir)
    newest = run_dir / "checkpoints" / "step-00000040.ckpt"
    newest.write_bytes(newest.read_bytes()[:-5000])
    result = script("train", f"resume={run_dir}")
    assert result.returncode == 0, result.stdout + result.stderr
    assert "step-00000040.ckpt is damaged" in result.stdout
    assert_same_end(run_dir, unbroken)


def test_a_run_killed_before_its_first_checkpoint_starts_again(unbroken, script, tmp_path):
    run_dir = tmp_path / "run"
    run_dir.mkdir()
    shutil.copy(unbroken / "config.yaml", run_dir)
    (run_dir / "tokenizer.json.0123abcd.partial").touch()  # it was killed there
    result = script("train", f"resume={run_dir}")
    assert not list(run_dir.rglob("*.partial"))
    assert result.returncode == 0, result.stdout + result.stderr
    assert_same_end(run_dir, unbroken)


def test_a_finished_run_that_was_killed_before_its_report_gets_one(unbroken, script, tmp_path):
    run_dir = tmp_path / "run"
    shutil.copytree(unbroken, run_dir)
    (run_dir / "report.html").unlink()
    result = script("train", f"resume={run_dir}")
    assert result.returncode == 1
    assert "is finished: it has made all 40 steps" in result.stderr
    assert f"look        {run_dir / 'report.html'}" in result.stdout
    assert "<html" in (run_dir / "report.html").read_text()


def test_changed_training_data_are_noticed(unbroken, script, toy_corpus, tmp_path):
    run_dir, corpus = tmp_path / "run", tmp_path / "corpus"
    shutil.copytree(unbroken, run_dir)
    shutil.copytree(toy_corpus, corpus)
    moved = script("train", f"resume={run_dir}", f"data.path={corpus}", "trainer.max_steps=41")
    assert moved.returncode == 0, moved.stderr
    with (corpus / "train.tsv").open("a") as file:
        file.write("one more\tun de plus\n")
    result = script("train", f"resume={run_dir}", f"data.path={corpus}", "trainer.max_steps=42")
    assert result.returncode == 1
    assert "the data have changed since the run was started" in result.stderr
