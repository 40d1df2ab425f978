"""The presets of configs/debug by the real command, on a small model."""

from __future__ import annotations

import csv
import json

import pytest
from conftest import TOY

SMALL = tuple(s for s in TOY if not s.startswith(("optim.", "trainer.")))


def metrics(run_dir):
    with (run_dir / "metrics" / "version_0" / "metrics.csv").open() as file:
        return list(csv.DictReader(file))


@pytest.fixture
def run(script, toy_corpus, tmp_path):
    def made(*settings):
        result = script("train", *SMALL, f"data.path={toy_corpus}", f"run_dir={tmp_path / 'run'}",
                        "trainer=cpu", *settings)
        assert result.returncode == 0, result.stdout + result.stderr
        return tmp_path / "run", result.stdout

    return made


@pytest.mark.slow
def test_overfit_learns_its_pairs_by_heart(run):
    run_dir, printed = run("debug=overfit")
    assert "64 training and 64 validation pairs" in printed
    assert json.loads((run_dir / "summary.json").read_text())["best_val_bleu"] > 99
    assert min(float(row["train/nll"]) for row in metrics(run_dir) if row["train/nll"]) < 0.05
    rows = [row for row in metrics(run_dir) if row["train/nll"]]
    assert all(row["train/nll"] == row["train/loss"] for row in rows)  # nothing is added to it


def test_fast_does_all_that_a_run_does(run):
    run_dir, printed = run("debug=fast", "optim.ema=0.9", "checkpoint.average=2")
    assert "8 validation pairs" in printed
    rows = metrics(run_dir)
    assert [int(row["step"]) + 1 for row in rows if row["val/bleu"]] == [10, 20]
    for name in ("source_tokens_per_second", "target_tokens_per_second", "padding_share",
                 "memory_gib", "step_seconds", "data_wait_share", "tflops"):
        assert any(row[f"perf/{name}"] for row in rows), name
    assert (run_dir / "bundle" / "model.safetensors").exists()
    assert (run_dir / "checkpoints" / "step-00000020.ckpt").exists()


@pytest.mark.slow
def test_profile_says_where_the_time_goes(run):
    run_dir, _ = run("debug=profile")
    trace = json.loads((run_dir / "profile" / "trace.json").read_text())
    assert {"forward", "backward", "optimiser"} <= {e.get("name") for e in trace["traceEvents"]}
