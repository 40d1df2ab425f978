"""What a run writes of itself meets a full disk with one message, and is whole or not there."""

from __future__ import annotations

import errno
import json
import logging
import os
import signal
import subprocess
import sys
from types import SimpleNamespace

import pytest
from conftest import toy_settings
from filelock import FileLock

from seq2seq.config import DataConfig
from seq2seq.data.sources import settings_of_corpus
from seq2seq.errors import RunError
from seq2seq.files import atomic_write
from seq2seq.trackers import Tracker, make_trackers
from seq2seq.training import run_folder, run_notes
from seq2seq.training.callbacks.findings import Findings
from seq2seq.training.callbacks.gradient_norms import GradientNorms
from seq2seq.training.failures import plain_failures
from seq2seq.training.run_folder import locked, opened
from seq2seq.training.run_notes import finish, make_up_for_report, note_beginning
from seq2seq.training.train import make_callbacks

VALIDATION = SimpleNamespace(best=3.0, best_step=2, average=-1.0, summary=None, pairs=[])


def ended(run_dir, *trackers):
    run = SimpleNamespace(folder=run_dir)
    return SimpleNamespace(step=2, max_steps=3, trackers=trackers, run=run)


def end(run_dir):
    finish(ended(run_dir), VALIDATION, toy_settings().data, 1.0)


def test_a_full_disk_is_one_message_that_says_how_to_go_on(tmp_path, monkeypatch):
    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    remedy = "Make room or correct the folder's permissions, then give the same command again"
    message = rf"No space left.*{remedy}"
    with pytest.raises(RunError, match=message), plain_failures(tmp_path):
        end(tmp_path)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "config.yaml").touch()
    with pytest.raises(RunError, match=r"Make room.*resume="), plain_failures(tmp_path):
        end(tmp_path)


def test_the_summary_is_whole(tmp_path):
    end(tmp_path)
    assert json.loads((tmp_path / "summary.json").read_text()) == {
        "steps": 2, "stopped_early": True, "best_step": 2, "best_val_bleu": 3.0, "seconds": 1.0,
    }  # fmt: skip
    assert not list(tmp_path.glob("*.partial"))


def test_a_report_is_made_up_for_only_where_a_finished_run_lacks_it(tmp_path, monkeypatch):
    made = []
    monkeypatch.setattr("seq2seq.report.page.write_report", lambda runs, path: made.append(path))
    make_up_for_report(tmp_path)
    assert made == []  # the run is not finished
    (tmp_path / "summary.json").write_text("{}")
    make_up_for_report(tmp_path)
    assert made == [tmp_path / "report.html"]
    made[0].touch()
    make_up_for_report(tmp_path)
    assert len(made) == 1


def test_a_lengthened_run_has_no_report_of_its_shorter_self(tmp_path, monkeypatch):
    """Killed between its new summary and its new report, it gets that from `resume=`."""
    for name in ("summary.json", "report.html"):
        (tmp_path / name).touch()
    monkeypatch.setattr(run_notes, "note_start", lambda *_: None)
    nothing = SimpleNamespace(parameters=list, save=lambda folder: None)
    data = SimpleNamespace(vocabularies=nothing, prepared=SimpleNamespace(report=None))
    note_beginning(toy_settings(), tmp_path, data, nothing, "CPU")
    assert [path.name for path in tmp_path.iterdir()] == ["config.yaml"]


def test_trackers_have_the_results_before_the_run_counts_as_finished(tmp_path):
    """A run that was killed while they took them does its end again."""

    class Killed(Tracker):
        def finish(self, summary):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        finish(ended(tmp_path, Killed()), VALIDATION, toy_settings().data, 1.0)
    assert not (tmp_path / "summary.json").exists()


@pytest.mark.parametrize("part", ["", "checkpoints", "snapshots", "metrics/version_0"])
def test_what_a_killed_save_left_goes_before_the_next_begins(tmp_path, part):
    """The room it takes may be what was missing."""
    (tmp_path / part).mkdir(parents=True, exist_ok=True)
    killed = atomic_write(tmp_path / part / "step-00000008.ckpt")
    killed.__enter__()
    assert list((tmp_path / part).iterdir())
    with locked(tmp_path):
        assert [path.name for path in (tmp_path / part).iterdir() if path.suffix] == []


def test_shards_that_have_no_checkpoint_go_before_the_next_save_begins(tmp_path):
    whole, stray = (tmp_path / "checkpoints" / f"step-0000000{step}.shards" for step in (4, 8))
    for shards in (whole, stray):
        shards.mkdir(parents=True)
    whole.with_suffix(".ckpt").touch()
    with locked(tmp_path):
        assert whole.exists()
        assert not stray.exists()


# Folders that a new run may take


@pytest.mark.parametrize(
    "made", ["metrics/version_0/metrics.csv", "mlflow/meta.yaml", "mlflow_id", "trackio_id",
             "wandb-id", "profile/trace.json", "samples.jsonl", "checkpoints/a.partial"],
)  # fmt: skip
def test_a_run_that_was_killed_before_it_saved_is_begun_anew(made, tmp_path):
    """Whatever it had made by then; where no run was, the same file is somebody's."""
    path = tmp_path / made
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    config = toy_settings(f"run_dir={tmp_path}")
    with pytest.raises(RunError, match="already holds files"):
        run_folder.run_folder(config)
    (tmp_path / ".lock").touch()
    with opened(run_folder.run_folder(config), config):
        assert (tmp_path / "config.yaml").is_file()


@pytest.mark.parametrize("made", ["checkpoints/step-00000001.ckpt", "bundle/x", "summary.json"])
def test_what_a_run_has_saved_is_not_overwritten(made, tmp_path):
    for path in (tmp_path / ".lock", tmp_path / made):
        path.parent.mkdir(exist_ok=True)
        path.touch()
    message = r"already holds .*, which training would overwrite"
    with pytest.raises(RunError, match=message), opened(tmp_path, toy_settings()):
        pytest.fail("it was opened")


@pytest.mark.parametrize("made", [None, "tokenizer.json", "notes.txt"])
def test_a_start_that_fails_leaves_no_folder_unless_something_is_in_it(made, tmp_path):
    run_dir = tmp_path / "run"
    run_dir.mkdir()

    def start() -> None:
        with opened(run_dir, toy_settings()):
            logging.getLogger("seq2seq").warning("a line of the log")
            if made is not None:
                (run_dir / made).touch()
            raise KeyError

    with pytest.raises(KeyError):
        start()
    assert run_dir.exists() == (made is not None)


# The lock


def test_workers_of_a_killed_process_do_not_keep_its_lock(tmp_path):
    """They are forked while it holds the lock, and notice its end some seconds later."""
    forks = """if True:
        import os, sys, time, filelock
        with filelock.FileLock(sys.argv[1]):
            if not os.fork():  # the worker, which lets go of the lock before it gets here
                print(os.getpid(), flush=True)
            time.sleep(60)
    """
    command = [sys.executable, "-c", forks, str(tmp_path / ".lock")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        worker = int(process.stdout.readline())
        try:
            with pytest.raises(RunError, match="another process trains in"), locked(tmp_path):
                pass
            process.kill()
            process.wait()
            with locked(tmp_path):
                os.kill(worker, 0)  # it still runs
        finally:
            os.kill(worker, signal.SIGKILL)


def test_who_trains_keeps_others_out(tmp_path):
    with FileLock(tmp_path / ".lock"), pytest.raises(RunError, match="another process trains in"):
        opened(tmp_path, toy_settings()).__enter__()


def test_what_killed_processes_left_goes_and_what_a_person_wrote_stays(tmp_path):
    parts = [tmp_path, tmp_path / "snapshots", tmp_path / "metrics" / "version_0"]
    for folder in parts:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "a.json.0123abcd.partial").touch()
    (tmp_path / "out.txt.partial").touch()  # of `translate --output`, which goes on with it
    with locked(tmp_path):
        pass
    files = [path.name for path in tmp_path.rglob("*") if path.is_file() and path.name != ".lock"]
    assert files == ["out.txt.partial"]


@pytest.mark.parametrize("kind", ["none", "csv"])
def test_what_looks_wrong_is_told_whatever_the_logger_is(tmp_path, kind):
    settings = toy_settings(f"logger={kind}")
    run = SimpleNamespace(folder=tmp_path, processes=SimpleNamespace(rank=0))
    prepared = SimpleNamespace(folder=tmp_path, report=None)
    found = make_callbacks(settings, run, SimpleNamespace(prepared=prepared), VALIDATION)
    assert {GradientNorms, Findings} <= {type(one) for one in found}
    assert len(make_trackers(settings.logger, tmp_path, {})) == 1


@pytest.mark.parametrize(
    ("data", "settings"),
    [
        ({"name": "starter"}, "data=starter"),
        ({"name": "files", "path": "own"}, "data=files data.path=own"),
        ({"name": "letters", "path": "own"}, "data=files data.path=own data.name=letters"),
        ({"name": "set", "path": "own", "urls": ["https://a.org/b"]}, "data=set data.path=own"),
        ({"name": "files", "train": ["a b.en", "a.fr"], "test": None},
         'data=files data.train=["a b.en",a.fr] data.test=null'),
        ({"name": "hub", "hub": "owner/name", "val": "train[:1%]", "source_column": "0"},
         'data=hub data.hub=owner/name data.val="train[:1%]" data.source_column=0'),
    ],
)
def test_the_advice_names_the_corpus_of_the_run(data, settings):
    assert " ".join(settings_of_corpus(DataConfig(**data))) == settings
