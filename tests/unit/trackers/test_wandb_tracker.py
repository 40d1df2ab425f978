"""W&B's process may die and its server go away: the run goes on, and ends."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import wandb
from tiny_bundle import tiny_bundle

from seq2seq.config import LoggerConfig
from seq2seq.files import checksum
from seq2seq.trackers import Guarded, Histogram, Picture, Table, lineage, make_trackers
from seq2seq.trackers import wandb as wandb_tracker
from seq2seq.trackers.wandb import WandbTracker

REFERENCE = Path(__file__).parents[2] / "reference"
START = """
import logging, os, signal, subprocess, sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from wandb_server import wandb_server
from seq2seq.config import LoggerConfig
from seq2seq.trackers import make_trackers
logging.basicConfig(stream=sys.stdout)
"""
KILLED = """
_, tracker = make_trackers(LoggerConfig(), Path(sys.argv[1]), {})
children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
[core] = [c for c in children if "wandb-core" in Path(f"/proc/{c}/cmdline").read_text()]
os.kill(int(core), signal.SIGKILL)
time.sleep(1)
for step in range(9):
    tracker.log({"loss": 1.0}, step)
"""
GONE = """
with wandb_server() as server:
    os.environ["WANDB_BASE_URL"] = server.url
    _, guarded = make_trackers(LoggerConfig(), Path(sys.argv[1]), {})
tracker = guarded.inner
tracker.log({"loss": 1.0}, 1)
assert not tracker.run.offline
started = time.monotonic()
try:
    tracker.run.finish()
except TimeoutError:
    assert time.monotonic() - started < 20
    print("timed out")
"""


@pytest.fixture(autouse=True)
def no_variables(monkeypatch, tmp_path):
    for name in list(os.environ):
        if name.startswith("WANDB") or name.lower().endswith("_proxy") or name == "NETRC":
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.fixture
def rows() -> list[dict]:
    """What was logged, in order."""
    return []


@pytest.fixture
def tracker(rows, tmp_path):
    """Of a run of W&B that keeps what is logged."""
    run = SimpleNamespace(
        log=rows.append, finish=lambda: None, offline=True, id="x", summary={},
        config=SimpleNamespace(update=lambda *_, **__: None),
    )  # fmt: skip
    return Guarded(WandbTracker(run, tmp_path, {"seed": 1}), "all")


def test_after_the_process_of_w_and_b_was_killed_the_run_ends_well(tracker, caplog):
    def log(*_):
        raise ConnectionResetError("Connection lost")

    tracker.inner.run.log = tracker.inner.run.finish = log
    for step in range(3):
        tracker.log({"a": 1.0}, step)
    assert caplog.text.count("W&B did not get all curves: ConnectionResetError") == 1
    tracker.finish({"steps": 2})
    assert "wandb sync" in caplog.text


def test_one_part_that_fails_is_said_once_and_leaves_the_others(tracker, rows, caplog):
    for step in range(2):
        tracker.log_media("sentences and pictures", lambda: 1 / 0, step)
        tracker.log_media("histograms", lambda: {"a": Histogram([1.0, 2.0])}, step)
        tracker.log({"b": 1.0}, step)
    assert [{*row} - {wandb_tracker.STEP} for row in rows] == [{"a"}, {"b"}] * 2
    assert caplog.text.count("W&B did not get all sentences and pictures: ZeroDivisionError") == 1


def test_pictures_of_a_row_are_as_large_as_the_largest(tracker, rows):
    one, other = np.zeros((2, 5, 3), np.uint8), np.zeros((4, 1, 3), np.uint8)
    pictures = [Picture(one, "one"), Picture(other, "other")]
    table = Table(["text", "picture"], [["a", None], ["b", pictures[0]]])
    tracker.log_media("sentences and pictures", lambda: {"row": pictures, "table": table}, 7)
    [logged] = rows
    assert logged[wandb_tracker.STEP] == 7
    first, second = (np.asarray(image.image) for image in logged["row"])
    assert first.shape == second.shape == (4, 5, 3)
    assert (first[:2] == 0).all()
    assert (first[2:] == 255).all()
    assert (second[:, 1:] == 255).all()
    assert logged["table"].data[0] == ["a", None]
    assert logged["table"].data[1][1].image.size == (5, 2)


def test_copies_for_uploading_go_to_the_run_unless_the_user_says_where(
    tracker, tmp_path, monkeypatch
):
    seen = []
    tracker.inner.run.log = lambda _: seen.append(os.environ.get("WANDB_DATA_DIR"))
    tracker.log_media("histograms", dict, 1)
    assert "WANDB_DATA_DIR" not in os.environ
    monkeypatch.setenv("WANDB_DATA_DIR", "/elsewhere")
    tracker.log_media("histograms", dict, 2)
    assert seen == [str(tmp_path / "wandb"), "/elsewhere"]
    assert os.environ["WANDB_DATA_DIR"] == "/elsewhere"


def test_a_disabled_run_is_none(monkeypatch, tmp_path):
    monkeypatch.setenv("WANDB_MODE", "disabled")
    assert len(make_trackers(LoggerConfig(), tmp_path, {})) == 1
    assert not (tmp_path / "wandb").exists()


def test_the_bundle_is_an_artifact_with_all_its_files(tracker, tmp_path):
    logged = []
    bundle = tiny_bundle()
    bundle.training |= {"step": 3, "scores": {"BLEU": 1.0}}
    bundle.save(tmp_path / "bundle")
    (tmp_path / "bundle" / "part").mkdir()
    (tmp_path / "bundle" / "part" / "file").write_text("x")
    tracker.inner.run.log_artifact = lambda artifact, aliases: logged.append(artifact)
    tracker.log_artifact("model", lambda: lineage.bundle(tmp_path))
    tracker.finish({"steps": 2})
    [artifact] = logged
    weights = checksum(tmp_path / "bundle/model.safetensors")
    assert artifact.metadata == {"step": 3, "scores": {"BLEU": 1.0}, "sha256": weights}
    assert {"config.json", "part/file"} <= artifact.manifest.entries.keys()
    assert tracker.inner.run.summary == {"result/steps": 2}


def run(script: str, run_dir: Path, **variables: str) -> str:
    """What a process prints that trains nothing, but logs."""
    result = subprocess.run(
        [sys.executable, "-c", START + script, run_dir, REFERENCE],
        env=os.environ | variables, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.mark.slow
def test_after_a_real_kill_the_run_goes_on_without(tmp_path):
    assert "W&B did not get all curves" in run(KILLED, tmp_path, WANDB_MODE="offline")


@pytest.mark.slow
def test_the_end_does_not_wait_for_a_server_that_has_gone(tmp_path):
    printed = run(GONE, tmp_path, WANDB_API_KEY="x" * 40, WANDB_FINISH_TIMEOUT="1")
    assert printed.endswith("timed out\n")


@pytest.mark.parametrize("fails", ["init", "Settings"])
def test_nothing_that_wandb_does_at_the_start_stops_a_run(fails, monkeypatch, tmp_path, caplog):
    monkeypatch.setattr(wandb, fails, lambda **_: 1 / 0)
    assert len(make_trackers(LoggerConfig(), tmp_path, {})) == 1
    assert "W&B (offline) did not start: division by zero" in caplog.text


def test_without_the_package_there_are_curves(monkeypatch, tmp_path, caplog):
    monkeypatch.setitem(sys.modules, "wandb", None)
    assert len(make_trackers(LoggerConfig(), tmp_path, {})) == 1
    assert "W&B (offline) did not start" in caplog.text


def test_the_server_is_that_of_wandb_login(monkeypatch, tmp_path):
    settings = SimpleNamespace(base_url="https://wandb.example.org:8443")
    monkeypatch.setattr(wandb, "setup", lambda: SimpleNamespace(settings=settings))
    assert wandb_tracker.server().netloc == "wandb.example.org:8443"
    assert not wandb_tracker.has_key()
    netrc = tmp_path / ".netrc"
    netrc.write_text("machine wandb.example.org:8443 login user password secret\n")
    assert wandb_tracker.has_key()
    monkeypatch.setenv("WANDB_BASE_URL", "https://other.example.org")
    assert wandb_tracker.server().netloc == "other.example.org"
    assert not wandb_tracker.has_key()


def test_a_key_of_the_old_name_and_a_token_count(monkeypatch, tmp_path):
    settings = SimpleNamespace(base_url="https://api.forge.coreweave.com")
    monkeypatch.setattr(wandb, "setup", lambda: SimpleNamespace(settings=settings))
    (tmp_path / ".netrc").write_text("machine api.wandb.ai login user password secret\n")
    assert wandb_tracker.has_key()
    (tmp_path / ".netrc").unlink()
    assert not wandb_tracker.has_key()
    monkeypatch.setenv("WANDB_IDENTITY_TOKEN_FILE", "token")
    assert wandb_tracker.has_key()


@pytest.mark.parametrize("url", ["localhost:8080", "http://x:99999", "ftp://x", "ftp://x:21", "x"])
def test_an_address_that_is_none_is_said_and_the_run_is_offline(url, monkeypatch, caplog):
    monkeypatch.setenv("WANDB_BASE_URL", url)
    monkeypatch.setenv("WANDB_API_KEY", "x" * 40)
    assert wandb_tracker._choose_mode() == "offline"
    assert f"WANDB_BASE_URL={url} is not an address" in caplog.text
    assert "WANDB_BASE_URL" not in os.environ
