"""Averages of weights, lengths in epochs and early stopping, by the real commands."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import safetensors.torch
import torch
import yaml
from conftest import ROOT, TOY, run_command

from seq2seq.evaluation.record import Evaluation

SETTINGS = ("decode=greedy", "logger=csv", "trainer=cpu", "optim.ema=0.9", "checkpoint.average=2")


@pytest.fixture(scope="module")
def averaged(script, toy_corpus, tmp_path_factory) -> tuple[Path, str]:
    run_dir = tmp_path_factory.mktemp("averaged") / "run"
    result = script(
        "train", *TOY, *SETTINGS, f"data.path={toy_corpus}", f"run_dir={run_dir}",
        "optim.schedule=wsd", "optim.warmup_steps=1epoch", "trainer.max_steps=4epochs",
        "trainer.val_every_n_steps=1epochs",
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return run_dir, result.stdout


def summary(run_dir: Path) -> dict:
    return json.loads((run_dir / "summary.json").read_text())


def state(run_dir: Path) -> dict:
    last = sorted((run_dir / "checkpoints").glob("step-*.ckpt"))[-1]
    return torch.load(last, weights_only=True)


def test_lengths_are_printed_in_steps_and_kept_as_they_were_given(averaged):
    run_dir, printed = averaged
    steps = summary(run_dir)["steps"]
    assert f"trainer.max_steps=4epochs is {steps} steps" in printed
    assert f"steps       {steps} of 1,024 tokens" in printed
    kept = yaml.safe_load((run_dir / "config.yaml").read_text())
    assert kept["trainer"]["max_steps"] == "4epochs"
    batches = steps // 4
    place = state(run_dir)["data"]["place"]
    seen = place["epoch"] * batches + place["batch"]
    assert seen == pytest.approx(4 * batches, abs=2)  # epochs may differ by a batch


def test_a_run_of_epochs_knows_that_it_is_finished(averaged, script):
    run_dir, _ = averaged
    result = script("train", f"resume={run_dir}")
    assert result.returncode == 1
    assert f"is finished: it has made all {summary(run_dir)['steps']} steps" in result.stderr


def test_snapshots_are_of_the_moving_average_and_the_checkpoint_has_both(averaged):
    run_dir, _ = averaged
    snapshots = sorted((run_dir / "snapshots").iterdir())
    assert len(snapshots) == 2
    last, saved = safetensors.torch.load_file(snapshots[-1]), state(run_dir)
    shadow = saved["ema"]["shadow"]
    assert shadow.keys() == last.keys()
    assert all(shadow[name].equal(value) for name, value in last.items())
    assert not any(
        saved["model"][name].equal(value) for name, value in last.items()
    )


def test_the_log_and_the_summary_say_which_weights_are_the_bundle(averaged):
    run_dir, printed = averaged
    found = summary(run_dir)
    average = found["average"]
    made = json.loads((run_dir / "bundle" / "config.json").read_text())["training"]
    assert average["shipped"] == (average["val_bleu"] > found["best_val_bleu"])
    assert ("averaged" in made) == average["shipped"]
    assert f"average of steps {', '.join(map(str, average['steps']))}: validation BLEU" in printed
    assert found["stopped_early"] is False
    with (run_dir / "metrics" / "version_0" / "metrics.csv").open() as file:
        assert "val/bleu_of_average" in file.readline()


def test_the_script_makes_the_average_of_the_end_of_training_again(
    averaged, script, toy_corpus, tmp_path
):
    run_dir, _ = averaged
    output = tmp_path / "averaged"
    result = script("average_checkpoints", f"run={run_dir}", "average=2", f"output={output}")
    assert result.returncode == 0, result.stderr
    assert f"evaluate    seq2seq evaluate bundle={output}" in result.stdout
    result = script("evaluate", f"bundle={output}", "data=files", f"data.path={toy_corpus}",
                    "split=val", f"output={tmp_path / 'scores'}")
    assert result.returncode == 0, result.stderr
    score = Evaluation.read(tmp_path / "scores" / "evaluation.json").score("BLEU")
    assert score.value == pytest.approx(summary(run_dir)["average"]["val_bleu"], abs=1e-3)
    again = script("average_checkpoints", f"run={run_dir}", "average=2", f"output={output}")
    assert again.returncode == 1
    assert "exists already: choose another folder" in again.stderr


@pytest.mark.slow
def test_a_run_that_cannot_get_better_stops_early_and_goes_on_with_more_patience(
    script, toy_corpus, tmp_path
):
    run_dir = tmp_path / "run"
    result = script(
        "train", *TOY, "decode=greedy", "logger=none", f"data.path={toy_corpus}",
        f"run_dir={run_dir}", "optim.lr=1e-12", "trainer.val_every_n_steps=2",
        "trainer.max_steps=12", "trainer.patience=2",
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert "stopping: 2 validations without better BLEU (trainer.patience)" in result.stdout
    assert summary(run_dir)["steps"] == 6
    assert summary(run_dir)["stopped_early"] is True
    result = script("train", f"resume={run_dir}")
    assert result.returncode == 1
    assert "stopped early after step 6: 2 validations brought no better BLEU" in result.stderr
    assert f"resume={run_dir} trainer.patience=4 (or null: never" in result.stderr
    result = script("train", f"resume={run_dir}", "trainer.patience=3")
    assert result.returncode == 0, result.stdout + result.stderr
    assert summary(run_dir)["steps"] == 8


@pytest.mark.slow
def test_two_processes_have_the_averages_of_one_that_accumulates(script, toy_corpus, tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    common = (*TOY, *SETTINGS, f"data.path={toy_corpus}", "trainer.max_steps=4",
              "trainer.val_every_n_steps=2")
    result = script("train", *common, f"run_dir={one}", "trainer.accumulate=2")
    assert result.returncode == 0, result.stdout + result.stderr
    result = run_command(
        sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", "--standalone",
        ROOT / "scripts" / "train.py", *common, f"run_dir={two}", "trainer.devices=2",
        "trainer.strategy=ddp",
    )  # fmt: skip
    assert result.returncode == 0, result.stdout + result.stderr
    ours, theirs = (state(run)["ema"] for run in (two, one))
    assert ours["updates"] == theirs["updates"] == 4
    for name, value in theirs["shadow"].items():
        torch.testing.assert_close(ours["shadow"][name], value, rtol=1e-4, atol=1e-5, msg=name)
    assert summary(two)["average"]["steps"] == [2, 4]
