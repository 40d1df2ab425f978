"""What a person gets to know about a bad step, and when a run gives up."""

from __future__ import annotations

import json
import logging
import math
from types import SimpleNamespace

import pytest
from tiny import tiny_transformer

from seq2seq.callbacks.bad_steps import MOST, BadSteps
from seq2seq.config import OptimConfig
from seq2seq.data.collate import collate
from seq2seq.data.tokenizer import Tokenizer
from seq2seq.data.vocabularies import Vocabularies
from seq2seq.errors import RunError
from seq2seq.training.guard import BadStep
from seq2seq.training.task import TranslationTask

PAIRS = [("one two", "un deux"), ("three", "trois quatre cinq")]


@pytest.fixture(scope="module")
def vocabularies() -> Vocabularies:
    source = Tokenizer.train((text for text, _ in PAIRS), 300)
    return Vocabularies(source, Tokenizer.train((text for _, text in PAIRS), 310))


def bad_step(vocabularies: Vocabularies, nll: float = math.nan) -> BadStep:
    sides = zip(*PAIRS, strict=True)
    sources, targets = (
        tokenizer.encode(texts)
        for tokenizer, texts in zip((vocabularies.source, vocabularies.target), sides, strict=True)
    )
    return BadStep("the loss is nan", nll, 2.5, 3.25, [collate(sources, targets)])


class Run:
    """A run in which a step has just ended."""

    def __init__(self, folder, vocabularies, stop=False):
        self.checkpoints = SimpleNamespace(wanted=False)
        self.callback = BadSteps(folder, vocabularies, stop, self.checkpoints)
        optim = OptimConfig()
        self.task = TranslationTask(tiny_transformer(), optim, gradient_clip=1.0, max_tokens=64)
        self.trainer = SimpleNamespace(global_step=7, global_rank=0)

    def end_step(self, bad: BadStep | None, in_a_row: int = 1) -> None:
        self.task.bad_step, self.task.guard.in_a_row = bad, in_a_row
        self.callback.on_train_batch_end(self.trainer, self.task, None, None, 0)


def test_the_sentences_can_be_read_and_the_figures_are_beside_them(vocabularies, tmp_path, caplog):
    run = Run(tmp_path, vocabularies)
    with caplog.at_level(logging.WARNING):
        run.end_step(bad_step(vocabularies))
    path = tmp_path / "bad_steps" / "step-00000007.json"
    content = json.loads(path.read_text(encoding="utf-8"), parse_constant=pytest.fail)
    [rows] = content.pop("batches")
    assert [(row["source"], row["target"]) for row in rows] == PAIRS
    for row, (source, target) in zip(rows, PAIRS, strict=True):
        ids = json.loads(row["source_ids"]), json.loads(row["target_ids"])
        assert vocabularies.source.decode([ids[0]]) == [source]
        assert vocabularies.target.decode([ids[1]]) == [target]
        assert ids[0][-1] == ids[1][-1] == 2  # the end marks, as the model saw them
    assert content == {
        "step": 7, "reason": "the loss is nan", "nll": "nan", "average": 2.5, "gradient_norm": 3.25,
    }
    assert caplog.messages == [
        "step 7 was left out: the loss is nan (nan nats per token, recent average 2.5, gradient "
        f"norm 3.25). Its sentences are in {path}"
    ]
    assert not run.checkpoints.wanted
    run.callback.on_train_batch_start()  # goes on


def test_good_steps_say_nothing(vocabularies, tmp_path, caplog):
    run = Run(tmp_path, vocabularies, stop=True)
    run.end_step(None)
    assert not caplog.messages
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("hook", ["on_train_batch_start", "on_validation_start"])
def test_a_run_that_stops_is_saved_first_and_says_how_to_go_on(hook, vocabularies, tmp_path):
    run = Run(tmp_path, vocabularies, stop=True)
    run.end_step(bad_step(vocabularies))
    assert run.checkpoints.wanted
    with pytest.raises(RunError, match="step 7 was left out: the loss is nan") as raised:
        getattr(run.callback, hook)()
    assert f"resume={tmp_path} trainer.on_loss_spike=skip" in str(raised.value)


def test_many_bad_steps_in_a_row_end_a_run_that_would_skip_them(vocabularies, tmp_path):
    run = Run(tmp_path, vocabularies)
    run.end_step(bad_step(vocabularies), in_a_row=MOST - 1)
    run.callback.on_train_batch_start()
    run.end_step(bad_step(vocabularies), in_a_row=MOST)
    assert run.checkpoints.wanted
    with pytest.raises(RunError, match=r"The run diverged: its last 10 steps .* lower optim\.lr"):
        run.callback.on_train_batch_start()


def test_other_processes_write_files_of_their_own(vocabularies, tmp_path):
    run = Run(tmp_path, vocabularies)
    run.trainer.global_rank = 3
    run.end_step(bad_step(vocabularies))
    assert (tmp_path / "bad_steps" / "step-00000007-rank3.json").is_file()


def test_a_folder_that_cannot_be_written_does_not_stop_the_run(vocabularies, tmp_path, caplog):
    (tmp_path / "bad_steps").touch()
    run = Run(tmp_path, vocabularies)
    run.end_step(bad_step(vocabularies))
    assert "Its sentences could not be written" in caplog.text
    run.callback.on_train_batch_start()
