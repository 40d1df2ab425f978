"""Snapshots at validations, their average at the end, and training that stops when BLEU does."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
from tiny_training import tiny_fit, tiny_task, weights

from seq2seq.bundle import averaging
from seq2seq.config import DecodeConfig
from seq2seq.data.tokenizer import Tokenizer
from seq2seq.data.vocabularies import Vocabularies
from seq2seq.errors import BundleError, RunError
from seq2seq.training.averaging import Snapshots
from seq2seq.training.checkpointing import checkpoint_path
from seq2seq.training.distributed import Processes
from seq2seq.training.run_folder import Run
from seq2seq.training.validation import Validation


class Scripted(Validation):
    """Gives these BLEU scores, one after another, and keeps the weights it was to score."""

    def __init__(self, run_dir: Path, scores: list[float], patience: int | None, count: int, by):
        shared = Tokenizer.train(["a b"], 260)
        run = Run(run_dir, {}, "32-true")
        super().__init__(
            run, [], Vocabularies(shared, shared), DecodeConfig(), patience=patience,
            snapshots=Snapshots(run_dir, run.processes, count, by),
        )  # fmt: skip
        self.scores, self.scored = list(scores), []

    def score(self, model, step):
        assert not model.training
        self.scored.append({name: value.clone() for name, value in model.state_dict().items()})
        return self.scores[len(self.scored) - 1], []


def run(run_dir: Path, scores: list[float], count=2, by="last", patience=None, **options):
    """Eight steps with a validation after every second one."""
    bleu = Scripted(run_dir, scores, patience, count, by)
    task = tiny_task(tie_embeddings="all")
    trainer = tiny_fit(
        task, [], options.pop("steps", 8), validation=bleu, run_dir=run_dir, save_every=1000,
        **options,
    )  # fmt: skip
    return task, bleu, trainer


def kept(run_dir: Path) -> list[int]:
    return [snapshot.step for snapshot in averaging.read_snapshots(run_dir)]


def shipped(run_dir: Path) -> tuple[dict[str, np.ndarray], dict]:
    folder = run_dir / "bundle"
    made = json.loads((folder / "config.json").read_text())["training"]
    return safetensors.numpy.load_file(folder / "model.safetensors"), made


@pytest.mark.parametrize(
    ("by", "steps"), [("last", [4, 6, 8]), ("best", [2, 6, 8])]
)  # of equal scores the later
def test_the_average_of_the_chosen_weights_is_scored_and_shipped_if_better(tmp_path, by, steps):
    task, bleu, _ = run(tmp_path, [5.0, 1.0, 5.0, 3.0, 9.0], count=3, by=by)
    assert kept(tmp_path) == steps
    *validated, average = bleu.scored
    chosen = [validated[step // 2 - 1] for step in steps]
    for name, value in average.items():
        mean = np.mean([one[name].double().numpy() for one in chosen], axis=0)
        np.testing.assert_allclose(value.numpy(), mean.astype(np.float32), rtol=1e-6)
    weights_shipped, made = shipped(tmp_path)
    assert all((weights_shipped[name] == average[name].numpy()).all() for name in weights_shipped)
    assert made["scores"] == {"BLEU": 9.0}
    assert made["averaged"] == [f"step {step}" for step in steps]
    assert bleu.summary == {"steps": steps, "val_bleu": 9.0, "shipped": True}
    assert weights(task)["output.weight"].equal(validated[-1]["output.weight"])  # given back


class Noted:
    """A tracker that keeps what is logged: names with values and step."""

    def __init__(self):
        self.rows = []

    def log(self, row, step):
        self.rows.append((row, step))


def test_its_score_is_logged_where_the_last_validation_is(tmp_path):
    noted = Noted()
    run(tmp_path, [1.0, 7.0, 3.0, 2.0, 6.5], trackers=[noted])
    steps = {name: (row[name], step) for row, step in noted.rows for name in row}
    assert steps["val/bleu"] == (2.0, 7)  # trackers count from 0
    assert steps["val/bleu_of_average"] == (6.5, 7)


def test_an_average_that_was_written_before_a_kill_is_made_again(tmp_path):
    """The bundle is not lost if the kill came while it was replaced."""
    run(tmp_path, [1.0, 7.0, 3.0, 2.0, 8.0])
    before = shipped(tmp_path)[1]
    (tmp_path / "bundle").rename(tmp_path / ".bundle.old")
    path = checkpoint_path(tmp_path, 8)
    _, bleu, _ = run(tmp_path, [8.0], checkpoint=path)
    assert bleu.summary == {"steps": [6, 8], "val_bleu": 8.0, "shipped": True}
    assert shipped(tmp_path)[1] == before


def test_an_average_that_is_no_better_is_not_shipped(tmp_path):
    _, bleu, _ = run(tmp_path, [1.0, 7.0, 3.0, 2.0, 7.0])
    weights_shipped, made = shipped(tmp_path)
    assert made["step"] == 4
    assert "averaged" not in made
    assert all((value == bleu.scored[1][name].numpy()).all()
               for name, value in weights_shipped.items())
    assert bleu.summary == {"steps": [6, 8], "val_bleu": 7.0, "shipped": False}


def test_a_run_validated_once_has_nothing_to_average(tmp_path):
    _, bleu, _ = run(tmp_path, [1.0], steps=2)
    assert bleu.summary is None
    assert len(bleu.scored) == 1


def test_with_ema_the_snapshots_are_of_the_average_that_was_validated(tmp_path):
    task, bleu, trainer = run(tmp_path, [1.0] * 5, ema=0.5)
    last = safetensors.numpy.load_file(averaging.read_snapshots(tmp_path)[-1].path)
    assert all((last[name] == bleu.scored[3][name].numpy()).all() for name in last)
    assert all((last[name] == value.numpy()).all() for name, value in trainer.ema.shadow.items())
    raw = weights(task)
    assert not all((value == raw[name].numpy()).all() for name, value in last.items())


def test_a_resumed_run_averages_what_one_that_never_stopped_averages(tmp_path):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    for folder in (whole, parts):
        folder.mkdir()
    _, expected, _ = run(whole, [4.0, 3.0, 2.0, 5.0, 9.0], by="best")
    run(parts, [4.0, 3.0, 0.0], by="best", steps=4)
    state = (parts / "bundle" / "config.json").read_bytes()
    run(parts, [2.0, 5.0, 0.0], by="best", checkpoint=checkpoint_path(parts, 4))
    (parts / "bundle" / "config.json").write_bytes(state)  # killed there: resumed from 4 again
    run(tmp_path, [4.0, 3.0, 0.0], by="best", steps=4)
    four = checkpoint_path(tmp_path, 4)
    _, found, _ = run(parts, [2.0, 5.0, 9.0], by="best", checkpoint=four)
    assert found.summary == {"steps": [2, 8], "val_bleu": 9.0, "shipped": True}
    assert expected.scored[-1].keys() == found.scored[-1].keys()
    for name, value in expected.scored[-1].items():
        assert value.equal(found.scored[-1][name])


def test_a_run_that_goes_on_keeps_an_average_that_is_better_than_its_further_steps(tmp_path):
    run(tmp_path, [4.0, 3.0, 2.0, 5.0, 9.0])
    more = {"steps": 10, "checkpoint": checkpoint_path(tmp_path, 8)}
    _, bleu, _ = run(tmp_path, [6.0, 7.0], **more)
    assert (bleu.best, bleu.best_step) == (6.0, 10)
    assert bleu.summary == {"steps": [8, 10], "val_bleu": 7.0, "shipped": False}
    assert shipped(tmp_path)[1]["scores"] == {"BLEU": 9.0}


def test_a_best_step_that_was_lost_does_not_keep_its_bundle(tmp_path):
    """The best of a run that goes on from before it is made again, and is shipped."""
    run(tmp_path, [4.0, 9.0, 0.0], steps=4)
    _, bleu, _ = run(tmp_path, [5.0, 0.0], steps=4, checkpoint=checkpoint_path(tmp_path, 2))
    assert (bleu.best, bleu.best_step) == (5.0, 4)
    weights_shipped, made = shipped(tmp_path)
    assert made["scores"] == {"BLEU": 5.0}
    assert all((value == bleu.scored[0][name].numpy()).all()
               for name, value in weights_shipped.items())


def test_processes_that_see_different_snapshots_average_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(Processes, "gather", lambda _, v: [v, v[1:] if isinstance(v, list) else v])
    with pytest.raises(RunError) as error:
        run(tmp_path, [1.0, 2.0, 3.0, 4.0])
    text = str(error.value)
    assert f"the processes found different snapshots of {tmp_path} (steps [6, 8], [8])" in text
    assert f"read the same folder, then continue: seq2seq train resume={tmp_path}" in text


# Early stopping


def test_training_stops_after_so_many_validations_without_a_better_bleu(tmp_path):
    _, bleu, trainer = run(tmp_path, [1.0, 3.0, 3.0, 2.0, 9.0], patience=2, steps=50)
    assert trainer.step == 8  # an equal BLEU is no better one
    assert (bleu.best, bleu.best_step, bleu.worse) == (3.0, 4, 2)
    assert checkpoint_path(tmp_path, 8).exists()


def test_patience_goes_on_counting_where_a_run_is_resumed(tmp_path):
    run(tmp_path, [3.0, 2.0, 9.0], patience=3, steps=4)
    _, bleu, trainer = run(
        tmp_path, [2.0, 2.5, 9.0], patience=3, steps=50,
        checkpoint=checkpoint_path(tmp_path, 4),
    )  # fmt: skip
    assert trainer.step == 8
    assert (bleu.best_step, bleu.worse) == (2, 3)


def test_a_run_that_stopped_early_and_was_killed_before_its_end_makes_the_end_only(tmp_path):
    run(tmp_path, [3.0, 2.0, 1.0, 0.0], patience=2, steps=50)
    _, bleu, trainer = run(
        tmp_path, [9.0], patience=2, steps=50, checkpoint=checkpoint_path(tmp_path, 6)
    )
    assert trainer.step == 6
    assert bleu.summary == {"steps": [4, 6], "val_bleu": 9.0, "shipped": True}
    assert len(bleu.scored) == 1


def test_a_better_bleu_starts_the_count_again(tmp_path):
    *_, trainer = run(tmp_path, [1.0, 0.5, 2.0, 0.5, 9.0], patience=2, steps=8)
    assert trainer.step == 8


# Files


def test_a_snapshot_that_cannot_be_written_is_a_message(tmp_path):
    (tmp_path / "snapshots").write_text("a file where the folder should be")
    with pytest.raises(RunError, match=r"weights of step 7 could not be saved .*resume="):
        averaging.save_snapshot(tiny_task().model, tmp_path, 7, 1.0)


def test_a_damaged_snapshot_is_named(tmp_path):
    averaging.save_snapshot(tiny_task().model, tmp_path, 7, 1.0)
    [snapshot] = averaging.read_snapshots(tmp_path)
    assert (snapshot.step, snapshot.bleu) == (7, 1.0)
    snapshot.path.write_bytes(snapshot.path.read_bytes()[:-10])
    with pytest.raises(BundleError, match=r"step-00000007\.safetensors cannot be read"):
        averaging.read_snapshots(tmp_path)


def test_a_damaged_snapshot_ends_all_processes_of_a_run_that_goes_on(tmp_path, monkeypatch):
    averaging.save_snapshot(tiny_task().model, tmp_path, 7, 1.0)
    [snapshot] = averaging.read_snapshots(tmp_path)
    snapshot.path.write_bytes(b"")
    told = []
    monkeypatch.setattr(Processes, "gather", lambda _, mine: told.append(mine) or [mine])
    with pytest.raises(BundleError):
        Snapshots(tmp_path, Processes(), 2, "last").forget_after(0)
    assert "cannot be read" in told[0]


def test_averages_keep_the_precision_of_many_small_differences(tmp_path):
    """A sum in 32 bits would lose them."""
    values = np.float32(1 + np.arange(100) * 2.0**-23)
    paths = [tmp_path / f"{n}.safetensors" for n in range(100)]
    for path, value in zip(paths, values, strict=True):
        safetensors.numpy.save_file({"w": value[None]}, path)
    assert averaging.average_weights(paths)["w"].item() == np.float32(values.mean(dtype=np.double))
