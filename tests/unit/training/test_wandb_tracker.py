"""W&B's process may die and its server go away: the run goes on, and ends."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import wandb

from seq2seq import wandb_access
from seq2seq.config import LoggerConfig
from seq2seq.training import trackers
from seq2seq.training.trackers import WandbTracker, make_trackers

REFERENCE = Path(__file__).parents[2] / "reference"
START = """
import logging, os, signal, subprocess, sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from wandb_server import wandb_server
from seq2seq.config import LoggerConfig
from seq2seq.training.trackers import make_trackers
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
    _, tracker = make_trackers(LoggerConfig(), Path(sys.argv[1]), {})
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


def test_a_killed_process_is_said_once(caplog):
    tried = []

    def log(*_, **__):
        tried.append(1)
        raise ConnectionResetError("Connection lost")

    run = SimpleNamespace(log=log, config=SimpleNamespace(update=log))
    tracker = WandbTracker(run, {"a": 1})
    tracker.log({"a": 1.0}, 1)
    tracker.flush()
    assert len(tried) == 1
    assert caplog.text.count("W&B gets no more curves of this run") == 1


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
    assert "W&B gets no more curves" in run(KILLED, tmp_path, WANDB_MODE="offline")


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
    assert wandb_access.server().netloc == "wandb.example.org:8443"
    assert not wandb_access.has_key()
    netrc = tmp_path / ".netrc"
    netrc.write_text("machine wandb.example.org:8443 login user password secret\n")
    assert wandb_access.has_key()
    monkeypatch.setenv("WANDB_BASE_URL", "https://other.example.org")
    assert wandb_access.server().netloc == "other.example.org"
    assert not wandb_access.has_key()


def test_a_key_of_the_old_name_and_a_token_count(monkeypatch, tmp_path):
    settings = SimpleNamespace(base_url="https://api.forge.coreweave.com")
    monkeypatch.setattr(wandb, "setup", lambda: SimpleNamespace(settings=settings))
    (tmp_path / ".netrc").write_text("machine api.wandb.ai login user password secret\n")
    assert wandb_access.has_key()
    (tmp_path / ".netrc").unlink()
    assert not wandb_access.has_key()
    monkeypatch.setenv("WANDB_IDENTITY_TOKEN_FILE", "token")
    assert wandb_access.has_key()


@pytest.mark.parametrize("url", ["localhost:8080", "http://x:99999", "ftp://x", "x"])
def test_an_address_that_is_none_is_said_and_the_run_is_offline(url, monkeypatch, caplog):
    monkeypatch.setenv("WANDB_BASE_URL", url)
    monkeypatch.setenv("WANDB_API_KEY", "x" * 40)
    assert trackers._wandb_mode() == "offline"
    assert f"WANDB_BASE_URL={url} is no address" in caplog.text
    assert "WANDB_BASE_URL" not in os.environ
