"""`-m` trains several runs: each in its own folder, a mistake in one does not stop the others."""

from __future__ import annotations

import json

import pytest
from conftest import TOY

SHORT = ("logger=csv", "trainer=cpu", "trainer.max_steps=10", "decode=greedy")


def rows(sweep):
    return [json.loads(line) for line in (sweep / "sweep.jsonl").read_text().splitlines()]


def summary(run_dir):
    return json.loads((run_dir / "summary.json").read_text())


@pytest.mark.slow
def test_a_sweep_trains_each_combination_and_goes_on_after_a_mistake(script, toy_corpus, tmp_path):
    sweep = tmp_path / "sweep"
    command = ("-m", *TOY, *SHORT, f"data.path={toy_corpus}", f"run_dir={sweep}")
    result = script("train", *command, "optim.ema=0,1.5,0.1")
    assert result.returncode == 1, result.stdout + result.stderr
    assert "run 1 failed: optim.ema=1.5 is too large" in result.stderr
    assert "error: 1 of the runs failed\nrun 1 (optim.ema=1.5): optim.e" in result.stderr
    assert "Traceback" not in result.stderr
    names = ["0-optim.ema_0", "2-optim.ema_0.1"]
    assert sorted(path.name for path in sweep.iterdir() if path.is_dir()) == names
    assert [row["run"] for row in rows(sweep)] == [0, 1, 2]
    for row, name in zip((rows(sweep)[0], rows(sweep)[2]), names, strict=True):
        assert round(row["best_val_bleu"], 4) == summary(sweep / name)["best_val_bleu"]
    assert f"results in {sweep}; to compare them: seq2seq compare {sweep}/*/" in result.stdout
    again = script("train", *command, "optim.ema=0,0.1")
    assert again.returncode == 1
    assert "already holds a sweep" in again.stderr


@pytest.mark.slow
def test_optuna_maximises_the_bleu_of_validation(script, toy_corpus, tmp_path):
    sweep = tmp_path / "sweep"
    toy = [one for one in TOY if not one.startswith("optim.lr=")]  # else it would be the rate
    result = script(
        "train", "-m", "hydra/sweeper=best_bleu", "hydra.sweeper.n_trials=3", *toy, *SHORT,
        f"data.path={toy_corpus}", f"run_dir={sweep}", "trainer.max_steps=40",
        "optim.lr=tag(log,interval(1e-4,1e-2))",
    )
    assert result.returncode == 0, result.stdout + result.stderr
    found = rows(sweep)
    rates = [float(row["settings"][0].removeprefix("optim.lr=")) for row in found]
    assert len(set(rates)) == 3
    assert all(1e-4 <= rate <= 1e-2 for rate in rates)
    scores = [row["best_val_bleu"] for row in found]
    assert len(set(scores)) > 1
    results = (sweep / "optimization_results.yaml").read_text()
    assert f"best_value: {max(scores)}" in results
    assert f"optim.lr: {rates[scores.index(max(scores))]}" in results


def test_optuna_without_any_good_run_ends_in_words(script, tmp_path):
    result = script(
        "train", "-m", "hydra/sweeper=best_bleu", "hydra.sweeper.n_trials=2",
        "optim.ema=interval(1.1,1.5)", f"run_dir={tmp_path / 'sweep'}",
    )
    assert result.returncode == 1
    assert "error: 2 of the runs failed" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.slow
def test_submitit_trains_the_runs_as_jobs(script, toy_corpus, tmp_path):
    """SLURM jobs by Hydra's submitit launcher, in its local mode."""
    sweep = tmp_path / "sweep"
    result = script("train", "-m", "hydra/launcher=submitit_local", *TOY, *SHORT, "seed=1,2",
                    f"data.path={toy_corpus}", f"run_dir={sweep}")
    assert result.returncode == 0, result.stdout + result.stderr
    assert {row["run"] for row in rows(sweep)} == {0, 1}
    for name in ("0-seed_1", "1-seed_2"):
        assert summary(sweep / name)["steps"] == 10
    assert f"seq2seq compare {sweep}/*/" in result.stdout


@pytest.mark.slow
def test_why_a_job_failed_is_said_here_and_not_only_in_its_log(script, tmp_path):
    result = script("train", "-m", "hydra/launcher=submitit_local", "optim.ema=1.5,1.6",
                    f"run_dir={tmp_path / 'sweep'}")
    assert result.returncode == 1
    for number, value in enumerate(("1.5", "1.6")):
        said = f"run {number} (optim.ema={value}): optim.ema={value} is too large"
        assert said in result.stderr
    assert "Traceback" not in result.stderr


def test_a_folder_that_cannot_be_made_is_one_message(script, tmp_path):
    taken = tmp_path / "file"
    taken.touch()
    for folder in (taken, taken / "sweep"):
        result = script("train", "-m", "seed=1,2", f"run_dir={folder}")
        assert result.returncode == 1
        assert result.stderr == (
            f"error: cannot write to the run's folder {folder}: Not a directory. Choose another: "
            "run_dir=FOLDER\n"
        )
        assert not result.stdout


def test_runs_of_a_sweep_have_one_process(script, tmp_path):
    result = script("train", "-m", "seed=1,2", "trainer.devices=2", f"run_dir={tmp_path / 'sweep'}")
    assert result.returncode == 1
    assert "-m trains each run in one process" in result.stderr


@pytest.mark.parametrize(
    ("file", "extra"),
    [("hydra/sweeper/optuna", "optuna"), ("hydra/launcher/submitit_slurm", "submitit")],
)
def test_a_missing_plugin_is_named(file, extra):
    from hydra.errors import MissingConfigException

    from seq2seq.cli.explain import explain
    from seq2seq.config import TrainConfig

    error = MissingConfigException("not there", file, options=["basic"])
    assert explain(error, TrainConfig).endswith(f"needs a package: pip install -e '.[{extra}]'")
