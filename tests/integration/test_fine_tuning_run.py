"""A run from the weights of another begins with its quality, and goes on from there."""

from __future__ import annotations

import csv
import json

import pytest
from conftest import TOY
from safetensors.torch import load_file

from seq2seq.data.vocabularies import Vocabularies

FREE = [setting for setting in TOY if not setting.startswith(("model", "tokenizer"))]


def curves(run_dir, name):
    with (run_dir / "metrics" / "version_0" / "metrics.csv").open() as file:
        return [float(row[name]) for row in csv.DictReader(file) if row.get(name)]


@pytest.mark.slow
def test_fine_tuning_starts_where_the_model_ended(script, toy_run, toy_corpus, tmp_path):
    settings = [*FREE, f"init_from={toy_run}", f"data.path={toy_corpus}", "logger=csv"]
    best = json.loads((toy_run / "summary.json").read_text())["best_val_bleu"]

    still = tmp_path / "still"  # at this rate weights keep every bit: it is the model itself
    result = script("train", *settings, f"run_dir={still}", "optim.lr=1e-30", "trainer.max_steps=1")
    assert result.returncode == 0, result.stdout + result.stderr
    ours, theirs = (load_file(run / "bundle" / "model.safetensors") for run in (still, toy_run))
    assert all(ours[name].equal(theirs[name]) for name in theirs)
    assert json.loads((still / "summary.json").read_text())["best_val_bleu"] == best
    assert curves(still, "val/nll")[0] in curves(toy_run, "val/nll")
    ours, theirs = (Vocabularies.load(run).content_hash() for run in (still, toy_run))
    assert ours == theirs

    tuned = tmp_path / "tuned"
    result = script("train", *settings, f"run_dir={tuned}", "optim.lr=1e-4", "model.dropout=0.1",
                    "trainer.max_steps=20", "trainer.val_every_n_steps=10")
    assert result.returncode == 0, result.stdout + result.stderr
    assert f"weights     of {toy_run}" in result.stdout
    assert max(curves(tuned, "train/nll")) < 2 < curves(toy_run, "train/nll")[0] / 2
    moved = load_file(tuned / "bundle" / "model.safetensors")
    assert any(not moved[name].equal(load_file(toy_run / "bundle" / "model.safetensors")[name])
               for name in moved)


def test_a_model_that_does_not_fit_is_refused_and_leaves_no_folder(script, toy_run, tmp_path):
    run_dir = tmp_path / "run"
    result = script("train", f"init_from={toy_run}", "model=small", f"run_dir={run_dir}")
    assert result.returncode != 0
    assert "model.d_model: 64 there, 256 here" in result.stderr
    assert not run_dir.exists()
