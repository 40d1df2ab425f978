"""What each tracker received, read from its own files; what of it leaves the machine."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from mlflow.tracking import MlflowClient

from seq2seq.config import LoggerConfig
from seq2seq.dashboard import SECTIONS
from seq2seq.errors import RunError
from seq2seq.trackers import (
    Artifact,
    Guarded,
    Histogram,
    Picture,
    Table,
    Tracker,
    make_trackers,
    require_package,
    shared,
)
from seq2seq.trackers.csv import METRICS, whole_rows

TABLE = Table(["source", "score", "attention"], [["a man", 0.5, None]])
PICTURE = Picture(np.zeros((4, 4, 3), np.uint8), "a caption")
MEDIA = {
    "parameters": {"model/parameters": Table(["parameter"], [["weight"]])},
    "histograms": {"decode/token_probability": Histogram([0.25, 0.5])},
    "the report of the data": {"data/report": "<p>raw text</p>"},
    "sentences and pictures": {"samples/fixed": TABLE, "samples/attention": [PICTURE]},
}
FACTS = {"dataset": {"kept": 5}, "model": {"step": 2}}
SETTINGS = {"seed": 7, "model": {"d_model": 16}}


def use(trackers: list[Tracker], bundle: Path | None = None) -> None:
    """A run of two steps that ends."""
    for tracker in trackers:
        tracker.log_artifact("dataset", lambda: Artifact("data", FACTS["dataset"]), used=True)
        for step in range(2):
            tracker.log({"train/nll": 3.0 - step}, step)
        for what, media in MEDIA.items():
            tracker.log_media(what, lambda media=media: media, 1)
        tracker.log_artifact("model", lambda: Artifact("bundle", FACTS["model"], bundle))
        tracker.finish({"steps": 2, "best_val_bleu": 12.5})


@pytest.fixture(autouse=True)
def nothing_elsewhere(monkeypatch):
    for name in list(os.environ):
        if name.startswith(("MLFLOW", "TRACKIO", "WANDB")):
            monkeypatch.delenv(name)


@pytest.mark.parametrize("kind", ["csv", "tensorboard", "mlflow"])
def test_every_tracker_has_a_table_of_curves_beside_it(kind, tmp_path):
    use(make_trackers(LoggerConfig(kind=kind), tmp_path, SETTINGS))
    rows = [{"step": row["step"], "nll": float(row["train/nll"])}
            for row in whole_rows(tmp_path / METRICS)]  # fmt: skip
    assert rows == [{"step": "0", "nll": 3.0}, {"step": "1", "nll": 2.0}]


def test_mlflow_has_everything_in_the_run_and_goes_on_in_the_same_run(tmp_path):
    config = LoggerConfig(kind="mlflow")
    use(make_trackers(config, tmp_path, SETTINGS))
    client = MlflowClient(tracking_uri=f"sqlite:///{tmp_path}/mlflow/mlflow.db")
    [experiment] = [e for e in client.search_experiments() if e.name == "seq2seq"]
    [run] = client.search_runs([experiment.experiment_id])
    history = client.get_metric_history(run.info.run_id, "train/nll")
    assert sorted((point.step, point.value) for point in history) == [(0, 3.0), (1, 2.0)]
    assert (run.data.tags["seed"], run.data.tags["model.d_model"]) == ("7", "16")
    assert run.info.status == "FINISHED"
    found = {str(path.relative_to(tmp_path / "mlflow/files")).partition("artifacts/")[2]: path
             for path in (tmp_path / "mlflow/files").rglob("*.*")}  # fmt: skip
    assert set(found) == {
        "data/report/00000001.html", "decode/token_probability/00000001.json",
        "model/parameters/00000001.json", "samples/fixed/00000001.json",
        "samples/attention/00000001/0.png", "summary.json", "dataset.json", "model.json",
    }  # fmt: skip
    assert json.loads(found["samples/fixed/00000001.json"].read_text())["data"] == [
        ["a man", 0.5, None]
    ]
    assert found["data/report/00000001.html"].read_text() == "<p>raw text</p>"
    use(make_trackers(config, tmp_path, SETTINGS, step=2))
    assert len(client.search_runs([experiment.experiment_id])) == 1


TRACKIO = """
import sys
sys.path[:0] = [sys.argv[2]]
from pathlib import Path
import test_trackers
from seq2seq.config import LoggerConfig
from seq2seq.trackers import make_trackers
for step in (0, 2):
    config = LoggerConfig(kind="trackio", project="mine")
    test_trackers.use(make_trackers(config, Path(sys.argv[1]), test_trackers.SETTINGS, step))
"""


def test_trackio_has_everything_without_an_account_or_a_word_on_the_output(tmp_path):
    place = tmp_path / "place"
    done = subprocess.run(
        [sys.executable, "-c", TRACKIO, tmp_path, Path(__file__).parent],
        env=os.environ | {"TRACKIO_DIR": str(place)},
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    with sqlite3.connect(place / "mine.db") as database:
        rows = database.execute("select run_name, step, metrics from metrics").fetchall()
    assert len({name for name, _, _ in rows}) == 1
    logged = [(step, json.loads(metrics)) for _, step, metrics in rows]
    assert [(step, m["train/nll"]) for step, m in logged if "train/nll" in m][:2] == [
        (0, 3.0), (1, 2.0),
    ]  # fmt: skip
    names = {name for _, metrics in logged for name in metrics}
    assert {name for media in MEDIA.values() for name in media} <= names
    assert [m["result/best_val_bleu"] for _, m in logged if "result/steps" in m] == [12.5] * 2


class Recorder(Tracker):
    """Keeps what it is given, as a tracker of another machine."""

    where = "there.example.org"

    def __init__(self):
        self.rows, self.media, self.artifacts = [], [], {}

    def log(self, row, step):
        self.rows.append(dict(row))

    def log_media(self, what, make, step):
        self.media.append(make())

    def log_artifact(self, kind, make, used=False):
        self.artifacts[kind] = make()


def test_every_panel_of_text_that_is_kept_back_says_which_setting_fills_it():
    inner = Recorder()
    use([Guarded(inner, "curves")])
    [notes] = [media for media in inner.media if "samples/fixed" in media]
    kept = {key for media in MEDIA.values() for key in media} - {
        "model/parameters", "decode/token_probability",
    }  # fmt: skip
    panels = {p.keys[0]: p.kind for section in SECTIONS.values() for p in section if p.text}
    assert kept <= set(notes) == set(panels)
    for name, note in notes.items():
        assert isinstance(note, Table if panels[name] == "table" else str)
        assert "logger.share=text" in repr(note)


def test_what_leaves_is_said():
    assert shared(Recorder(), "curves") == (
        "curves, settings and the command go to there.example.org (logger.share=curves)"
    )
    assert shared(Tracker(), "all").startswith("nothing leaves this machine")


def test_a_tracker_that_does_not_start_costs_no_run(tmp_path, monkeypatch, caplog):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "nonsense://x")
    assert len(make_trackers(LoggerConfig(kind="mlflow"), tmp_path, SETTINGS)) == 1
    assert "logger=mlflow did not start, there are files only" in caplog.text


def test_a_package_that_is_missing_is_said_before_the_run(monkeypatch):
    monkeypatch.setattr("seq2seq.trackers.find_spec", lambda name: None)
    for kind in ("tensorboard", "trackio", "mlflow"):
        with pytest.raises(RunError, match=rf"pip install -e '\.\[{kind}\]'"):
            require_package(LoggerConfig(kind=kind))
    require_package(LoggerConfig(kind="wandb"))
