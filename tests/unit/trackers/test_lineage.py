"""From data to run to bundle to evaluation, read from what W&B wrote offline."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from example_run import data_report, evaluation, write_run
from wandb_file import OfflineRun, read_offline

from seq2seq.config import LoggerConfig
from seq2seq.files import checksum
from seq2seq.trackers import lineage, make_trackers


@pytest.fixture
def run(tmp_path, monkeypatch) -> Path:
    """A run that W&B knows."""
    monkeypatch.setenv("WANDB_MODE", "offline")
    logger = {"kind": "wandb", "project": "mine", "share": "all"}
    folder = write_run(tmp_path / "run", logger=logger)
    config = folder / "bundle/config.json"
    config.write_text(config.read_text().replace(
        '"training": {', '"training": {"step": 40, "scores": {"BLEU": 20.0}, '))
    _, tracker = make_trackers(LoggerConfig(project="mine", share="all"), folder, {})
    tracker.log_artifact("dataset", lambda: lineage.dataset(data_report()), used=True)
    tracker.log_artifact("model", lambda: lineage.bundle(folder))
    tracker.finish({"steps": 40})
    return folder


def read(folder: Path) -> OfflineRun:
    """The one run in a folder, as soon as W&B's own process has written it."""
    for _ in range(100):
        [found] = read_offline(folder)
        if found.summary:
            return found
        time.sleep(0.1)
    raise TimeoutError(folder)


def test_a_score_can_be_followed_back_to_its_data(run):
    lineage.log_evaluation(run, evaluation())
    trained, scored = read(run), read(run / "wandb/starter-test")
    assert scored.identity["id"] != trained.identity["id"]
    assert scored.identity["project"] == trained.identity["project"] == "mine"

    of_data, of_bundle = "data-data-fingerprint", f"bundle-{trained.identity['id']}"
    assert {n: one["used"] for n, one in trained.artifacts.items()} == {
        of_data: True, of_bundle: False,
    }  # fmt: skip
    assert trained.artifacts[of_data]["facts"]["kept"] == 90
    weights = checksum(run / "bundle/model.safetensors")
    assert trained.artifacts[of_bundle]["facts"]["sha256"] == weights

    of_scores = f"evaluation-{evaluation().identity}"
    assert {n: one["used"] for n, one in scored.artifacts.items()} == {
        of_bundle: True, of_scores: False,
    }  # fmt: skip
    used, made = (own.artifacts[of_bundle]["digest"] for own in (scored, trained))
    assert used == made  # the same version
    assert scored.artifacts[of_scores]["facts"]["scores"] == {"BLEU": 56.4, "chrF2": 72.8}
    assert scored.summary["result/BLEU"] == 56.4


def test_the_bundle_that_is_evaluated_is_the_one_that_is_there(run):
    """Evaluated after the run went on, it is another version."""
    (run / "bundle/README.md").write_text("another")
    lineage.log_evaluation(run, evaluation())
    trained, scored = read(run), read(run / "wandb/starter-test")
    name = f"bundle-{trained.identity['id']}"
    assert scored.artifacts[name]["digest"] != trained.artifacts[name]["digest"]


def test_evaluations_of_runs_that_w_and_b_does_not_know_stay_here(run):
    (run / "wandb_id").unlink()
    lineage.log_evaluation(run, evaluation())
    assert not (run / "wandb/starter-test").exists()
