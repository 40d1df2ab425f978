"""What is saved and when; runs that end anywhere and go on as if they had not."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from tiny_training import TinyValidation, tiny_fit, tiny_task, weights

from seq2seq.config import CheckpointConfig
from seq2seq.errors import RunError
from seq2seq.training import checkpointing, trainer
from seq2seq.training.callbacks import Callback
from seq2seq.training.checkpointing import (
    checkpoint_files,
    checkpoint_path,
    newest_checkpoint,
    read_checkpoint,
    restore_random_state,
    step_of,
    write_checkpoint,
)
from seq2seq.training.distributed import Processes
from seq2seq.training.failures import plain_failures
from seq2seq.training.stopping import Interrupted


class Diary(Callback):
    """Remembers steps of validations in its state, as Validation remembers the best."""

    def __init__(self, die_in_validation: int = 0, die_after_step: int = 0):
        self.die_in_validation, self.die_after_step = die_in_validation, die_after_step
        self.steps: list[int] = []
        self.drawn: list[float] = []

    def state_dict(self):
        return {"steps": list(self.steps), "drawn": list(self.drawn)}

    def load_state_dict(self, state):
        self.steps, self.drawn = state["steps"], state["drawn"]

    def on_validation_end(self, trainer):
        if trainer.step == self.die_in_validation:
            raise SystemExit
        self.steps.append(trainer.step)
        self.drawn.append(torch.rand(1).item())

    def on_step_end(self, trainer, batches):
        if self.die_after_step and trainer.step == self.die_after_step + 1:
            raise SystemExit  # before anything of this step is saved


def train(run_dir: Path, steps: int, diary: Callback, every: int = 3, minutes=None, **options):
    """Validated after 4 steps and at the end; goes on if there is a state."""
    (run_dir / "checkpoints").mkdir(parents=True, exist_ok=True)
    task = tiny_task(dropout=0.3)
    torch.manual_seed(1)
    tiny_fit(
        task, [diary], steps, val_every_n_steps=4, checkpoint=newest_checkpoint(run_dir),
        run_dir=run_dir, saving=CheckpointConfig(every, minutes), **options,
    )  # fmt: skip
    return task


@pytest.fixture
def written(monkeypatch) -> list[tuple[int, bool]]:
    """Step and `validated` of each checkpoint."""
    found = []

    def write(path, content):
        write_checkpoint(path, content)
        found.append((content["step"], content["validated"]))

    monkeypatch.setattr(checkpointing, "write_checkpoint", write)
    return found


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory):
    diary = Diary()
    task = train(tmp_path_factory.mktemp("runs") / "whole", 7, diary)
    return weights(task), diary


def test_it_saves_every_so_often_and_around_each_validation(tmp_path, written):
    diary = Diary()
    train(tmp_path, 7, diary)
    assert diary.steps == [4, 7]
    assert written == [(3, True), (4, False), (4, True), (6, True), (7, False), (7, True)]


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
    task = train(tmp_path, 7, second)
    expected, whole = unbroken
    assert second.steps == whole.steps
    assert second.drawn == whole.drawn
    for name, value in weights(task).items():
        assert value.equal(expected[name]), name
    assert read_checkpoint(newest_checkpoint(tmp_path)).content["validated"]


def test_the_spare_checkpoint_stays_when_a_validation_is_repeated(tmp_path):
    """The first save after it is of the same step."""
    with pytest.raises(SystemExit):
        train(tmp_path, 7, Diary(die_in_validation=4))
    kept = [step_of(path) for path in checkpoint_files(tmp_path)]
    with pytest.raises(SystemExit):
        train(tmp_path, 7, Diary(die_after_step=4))
    assert [step_of(path) for path in checkpoint_files(tmp_path)] == kept == [3, 4]


def test_a_longer_run_goes_on_behind_the_end_of_a_shorter(tmp_path):
    train(tmp_path, 7, Diary())
    again = Diary()
    train(tmp_path, 10, again)
    assert again.steps == [4, 7, 8, 10]


def test_with_another_accumulation_validations_come_at_the_same_steps(tmp_path, written):
    with pytest.raises(SystemExit):
        train(tmp_path, 9, Diary(die_after_step=3), accumulate=1)
    diary = Diary()
    train(tmp_path, 9, diary, accumulate=2)
    assert diary.steps == [4, 8, 9]
    assert [step for step, validated in written if not validated] == [4, 8, 9]


def said(caplog) -> list[str]:
    return [record.message for record in caplog.records if record.name.startswith("seq2seq")]


def test_another_precision_is_said(tmp_path, caplog):
    train(tmp_path, 4, Diary())
    state = read_checkpoint(newest_checkpoint(tmp_path)).content
    assert state["precision"] == "32-true"
    train(tmp_path, 5, Diary())
    assert said(caplog) == []
    write_checkpoint(checkpoint_path(tmp_path, 6), {**state, "precision": "bf16-mixed"})
    train(tmp_path, 7, Diary())
    assert said(caplog) == [
        "the run computed in bf16-mixed so far and continues in 32-true: to keep bf16-mixed, "
        "resume with trainer.precision=bf16-mixed"
    ]


def test_weights_of_another_model_are_named(tmp_path):
    train(tmp_path, 4, Diary())
    state = read_checkpoint(newest_checkpoint(tmp_path)).content
    state["model"]["output.weight"] = torch.zeros(3, 5)
    write_checkpoint(checkpoint_path(tmp_path, 4), state)
    with pytest.raises(RunError, match=r"(?s)belongs to another model .* for output.*3, 5"):
        train(tmp_path, 7, Diary())


def test_processes_and_steps_without_a_random_state_have_seeds_of_their_own():
    drawn = []
    for seed, rank, step in [(1, 1, 0), (1, 2, 0), (2, 1, 0), (1, 1, 8), (1, 1, 0)]:
        fabric = SimpleNamespace(global_rank=rank, world_size=3)
        restore_random_state(SimpleNamespace(fabric=fabric, seed=seed, step=step), None)
        drawn.append(torch.rand(1).item())
    assert len(set(drawn)) == 4
    assert drawn[0] == drawn[-1]


def test_by_the_clock(tmp_path, monkeypatch, written):
    clock = iter(range(0, 10_000, 20))  # each look at it takes 20 seconds
    # The name in that module alone: event loops of servers in other threads need the true time.
    monkeypatch.setattr(trainer, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    train(tmp_path, 7, Diary(), every=1000, minutes=1)
    by_clock = [step for step, validated in written if validated and step not in (4, 7)]
    assert 0 < len(by_clock) < 5


def test_a_signal_that_comes_while_data_are_opened_is_obeyed_after_the_first_step(tmp_path):
    class Early(Diary):
        def on_train_start(self, trainer):
            os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(Interrupted, match="stopped by SIGTERM after step 1") as error:
        train(tmp_path, 7, Early())
    assert error.value.exit_code == 143
    assert step_of(newest_checkpoint(tmp_path)) == 1


def test_a_signal_that_comes_as_a_validation_begins_leaves_it_owed(tmp_path):
    class Late(TinyValidation):
        def validate(self, trainer):
            pytest.fail("the state is saved, and the process should end")

    class Signal(Diary):
        def on_step_end(self, trainer, batches):
            if trainer.step == 4:
                os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(Interrupted, match="after step 4"):
        train(tmp_path, 7, Signal(), validation=Late())
    assert not read_checkpoint(newest_checkpoint(tmp_path)).content["validated"]


def test_processes_that_found_different_checkpoints_do_not_start(tmp_path, monkeypatch):
    with pytest.raises(SystemExit):
        train(tmp_path, 7, Diary(die_after_step=5))
    monkeypatch.setattr(Processes, "gather", lambda _, step: [step, 0])  # another found none
    with pytest.raises(RunError) as error:
        train(tmp_path, 7, Diary())
    said = f"the processes found different checkpoints of {tmp_path} (steps 4, 0): see that all "
    assert f"{said}machines read the same folder, then continue: seq2seq" in str(error.value)


@pytest.mark.parametrize(
    ("damaged", "diary", "every", "kept"),
    [(7, Diary(die_in_validation=8), 100, [6, 8]), (8, Diary(die_after_step=7), 7, [6, 7])],
    ids=["older than the next", "newer than the next"],
)
def test_a_damaged_checkpoint_is_never_the_reserve(tmp_path, damaged, diary, every, kept):
    train(tmp_path, damaged, Diary())
    assert [step_of(path) for path in checkpoint_files(tmp_path)] == [6, damaged]
    checkpoint_path(tmp_path, damaged).write_bytes(b"cut off")
    with pytest.raises(SystemExit):
        train(tmp_path, 20, diary, every=every)
    assert [step_of(path) for path in checkpoint_files(tmp_path)] == kept


def test_an_error_of_one_process_ends_all_with_its_message(monkeypatch):
    monkeypatch.setattr(Processes, "gather", lambda _, mine: ["no room", mine])
    with pytest.raises(RunError, match="no room"), Processes().failing_together():
        pass
    with pytest.raises(OSError, match="broken"), Processes().failing_together():
        raise OSError("broken")


def test_a_failed_save_stops_the_run_with_the_state_before_it(tmp_path, monkeypatch):
    def full_at_6(path, content):
        if content["step"] == 6:
            raise OSError(28, "No space left on device")
        write_checkpoint(path, content)

    monkeypatch.setattr(checkpointing, "write_checkpoint", full_at_6)
    (tmp_path / "config.yaml").touch()
    with pytest.raises(RunError) as error, plain_failures(tmp_path):
        train(tmp_path, 7, Diary())
    assert [step_of(path) for path in checkpoint_files(tmp_path)] == [3, 4]  # nothing went before
    assert "No space left on device. Make room" in str(error.value)
    assert f"resume={tmp_path}" in str(error.value)
    assert step_of(newest_checkpoint(tmp_path)) == 4


def test_each_process_gets_its_own_random_state():
    states = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        states.append({"torch": torch.get_rng_state(), "cuda": None})
    second = SimpleNamespace(fabric=SimpleNamespace(global_rank=1, world_size=2))
    restore_random_state(second, SimpleNamespace(content={"random_states": states}))
    assert torch.get_rng_state().equal(states[1]["torch"])
