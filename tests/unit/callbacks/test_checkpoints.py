"""What the callback saves and when; runs that end anywhere and go on as if they had not."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import lightning as L
import pytest
import torch
from tiny_training import tiny_fit, tiny_task, weights

from seq2seq.callbacks import checkpoints as module
from seq2seq.callbacks.checkpoint_files import (
    SafeFiles,
    checkpoint_path,
    newest_checkpoint,
    read_entry,
    step_of,
)
from seq2seq.callbacks.checkpoints import Checkpoints
from seq2seq.callbacks.random_state import seed_process
from seq2seq.config import CheckpointConfig
from seq2seq.training.processes import Processes
from seq2seq.training.stopping import Interrupted, StopRequest


class CountingFiles(SafeFiles):
    def __init__(self):
        self.written: list[tuple[int, bool]] = []  # step, validated

    def save_checkpoint(self, checkpoint, path, storage_options=None):
        super().save_checkpoint(checkpoint, path, storage_options)
        self.written.append((step_of(Path(path)), checkpoint["seq2seq"]["validated"]))


class Diary(L.Callback):
    """Remembers steps of validations in its state, as ValidationBleu remembers the best."""

    def __init__(self, die_in_validation: int = 0, die_after_step: int = 0):
        self.die_in_validation, self.die_after_step = die_in_validation, die_after_step
        self.steps: list[int] = []
        self.drawn: list[float] = []

    def state_dict(self):
        return {"steps": list(self.steps), "drawn": list(self.drawn)}

    def load_state_dict(self, state_dict):
        self.steps, self.drawn = state_dict["steps"], state_dict["drawn"]

    def on_validation_epoch_end(self, trainer, pl_module):
        if trainer.global_step == self.die_in_validation:
            raise SystemExit
        self.steps.append(trainer.global_step)
        self.drawn.append(torch.rand(1).item())

    def on_train_batch_start(self, trainer, *_):
        if self.die_after_step and trainer.global_step == self.die_after_step:
            raise SystemExit


def train(run_dir: Path, steps: int, diary: Diary, every: int = 3, accumulate: int = 1, **config):
    """Seven steps by default, validated after 4 and at the end; goes on if there is a state."""
    (run_dir / "checkpoints").mkdir(parents=True, exist_ok=True)
    task, files = tiny_task(dropout=0.3), CountingFiles()
    checkpoints = Checkpoints(
        run_dir, CheckpointConfig(every_n_steps=every, **config), 4, files, StopRequest(), {}, 1
    )
    seed_process(1, 0, 0)
    newest = newest_checkpoint(run_dir)
    tiny_fit(
        task, [diary, checkpoints], steps, val_every=4, checkpoint=newest, plugins=[files],
        first_batch=accumulate * step_of(newest) if newest else 0,
        accumulate_grad_batches=accumulate,
    )
    return task, files


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory):
    diary = Diary()
    task, files = train(tmp_path_factory.mktemp("runs") / "whole", 7, diary)
    return weights(task), diary, files


def test_it_saves_every_so_often_and_around_each_validation(unbroken):
    _, diary, files = unbroken
    assert diary.steps == [4, 7]
    assert files.written == [(3, True), (4, False), (4, True), (6, True), (7, False), (7, True)]


@pytest.mark.parametrize(
    ("diary", "from_step"),
    [
        (Diary(die_after_step=5), 4),
        (Diary(die_after_step=6), 6),
        (Diary(die_in_validation=4), 4),
        (Diary(die_in_validation=7), 7),
    ],
    ids=["between saves", "just saved", "in a validation", "in the last validation"],
)
def test_a_run_that_died_goes_on_as_if_it_had_not(unbroken, tmp_path, diary, from_step):
    with pytest.raises(SystemExit):
        train(tmp_path, 7, diary)
    assert step_of(newest_checkpoint(tmp_path)) == from_step
    second = Diary()
    task, _ = train(tmp_path, 7, second)
    expected, whole, _ = unbroken
    assert second.steps == whole.steps
    assert second.drawn == whole.drawn
    for name, value in weights(task).items():
        assert value.equal(expected[name]), name
    assert read_entry(newest_checkpoint(tmp_path))["validated"]


def test_twice_is_no_problem_either(unbroken, tmp_path):
    for diary in (Diary(die_in_validation=4), Diary(die_after_step=5)):
        with pytest.raises(SystemExit):
            train(tmp_path, 7, diary)
    last = Diary()
    task, _ = train(tmp_path, 7, last)
    assert last.steps == unbroken[1].steps
    assert all(value.equal(unbroken[0][name]) for name, value in weights(task).items())


def test_a_longer_run_goes_on_behind_the_end_of_a_shorter(tmp_path):
    train(tmp_path, 7, Diary())
    again = Diary()
    train(tmp_path, 10, again)
    assert again.steps == [4, 7, 8, 10]


def test_with_another_accumulation_validations_come_at_the_same_steps(tmp_path):
    with pytest.raises(SystemExit):
        train(tmp_path, 9, Diary(die_after_step=3), accumulate=1)
    diary = Diary()
    _, files = train(tmp_path, 9, diary, accumulate=2)
    assert diary.steps == [4, 8, 9]
    assert [step for step, validated in files.written if not validated] == [4, 8, 9]


def said(caplog) -> list[str]:
    return [record.message for record in caplog.records if record.name.startswith("seq2seq")]


def test_another_precision_is_said(tmp_path, caplog):
    train(tmp_path, 4, Diary())
    newest = newest_checkpoint(tmp_path)
    state = torch.load(newest, weights_only=True)
    assert state["seq2seq"]["precision"] == "32-true"
    train(tmp_path, 5, Diary())
    assert said(caplog) == []
    state["seq2seq"]["precision"] = "bf16-mixed"  # as of a machine where auto meant that
    SafeFiles().save_checkpoint(state, checkpoint_path(tmp_path, 6))
    train(tmp_path, 7, Diary())
    assert said(caplog) == [
        "the run computed in bf16-mixed so far and goes on in 32-true: to keep it, resume with "
        "trainer.precision=bf16-mixed"
    ]


def test_by_the_clock(tmp_path, monkeypatch):
    clock = iter(range(0, 10_000, 20))  # each look at it takes 20 seconds
    monkeypatch.setattr(module.time, "monotonic", lambda: next(clock))
    _, files = train(tmp_path, 7, Diary(), every=1000, every_minutes=1)
    by_clock = [step for step, validated in files.written if validated and step not in (4, 7)]
    assert 0 < len(by_clock) < 5


def test_a_signal_that_comes_while_data_are_opened_is_obeyed_after_the_first_step(tmp_path):
    class Early(Diary):
        def on_train_start(self, *_):  # before ours, so Lightning has the signal
            os.kill(os.getpid(), signal.SIGTERM)

    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(Interrupted, match="stopped by SIGTERM after step 1") as error:
        train(tmp_path, 7, Early())
    signal.signal(signal.SIGTERM, before)
    assert error.value.exit_code == 143
    assert step_of(newest_checkpoint(tmp_path)) == 1


def test_processes_that_found_different_checkpoints_do_not_start(tmp_path, monkeypatch):
    with pytest.raises(SystemExit):
        train(tmp_path, 7, Diary(die_after_step=5))
    monkeypatch.setattr(Processes, "gather", lambda _, step: [step, 0])  # another found none
    with pytest.raises(module.RunError) as error:
        train(tmp_path, 7, Diary())
    assert f"the processes found different checkpoints of {tmp_path} (steps 4, 0)" in str(
        error.value
    )
    assert "see that all machines read the same folder, then start again" in str(error.value)


def test_the_first_save_removes_what_a_killed_one_left(tmp_path):
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints" / "step-00000002.partial").write_bytes(b"half of it")
    train(tmp_path, 4, Diary())
    assert {path.suffix for path in (tmp_path / "checkpoints").iterdir()} == {".ckpt"}


def test_a_failed_save_stops_the_run_with_the_state_before_it(tmp_path, monkeypatch):
    class FullAt6(CountingFiles):
        def save_checkpoint(self, checkpoint, path, storage_options=None):
            if step_of(Path(path)) == 6:
                self.error = OSError(28, "No space left on device")
            else:
                super().save_checkpoint(checkpoint, path, storage_options)

    monkeypatch.setitem(globals(), "CountingFiles", FullAt6)
    with pytest.raises(module.RunError) as error:
        train(tmp_path, 7, Diary())
    assert "step 6 could not be saved to" in str(error.value)
    assert "No space left on device. Make room" in str(error.value)
    assert f"resume={tmp_path}" in str(error.value)
    assert step_of(newest_checkpoint(tmp_path)) == 4
