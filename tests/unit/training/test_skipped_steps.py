"""What a person gets to know about a skipped step, and when a run gives up."""

from __future__ import annotations

import json
import logging
import math
from types import SimpleNamespace

import pytest

from seq2seq.config import TrainerConfig
from seq2seq.data.collate import collate
from seq2seq.data.tokenizer import Tokenizer
from seq2seq.data.vocabularies import Vocabularies
from seq2seq.training.loss_spikes import (
    GRADIENT_NOT_FINITE,
    JUMP,
    LOSS_NOT_FINITE,
    MOST_IN_A_ROW,
    SkippedSteps,
    Verdict,
)

PAIRS = [("one two", "un deux"), ("three", "trois quatre cinq")]


@pytest.fixture(scope="module")
def vocabularies() -> Vocabularies:
    source = Tokenizer.train((text for text, _ in PAIRS), 300)
    return Vocabularies(source, Tokenizer.train((text for _, text in PAIRS), 310))


def skip_a_step(steps: SkippedSteps, in_a_row: int = 1) -> None:
    """Report that step 7 was left out, whose batch holds all pairs."""
    sides = zip(*PAIRS, strict=True)
    sources, targets = (
        tokenizer.encode(texts)
        for tokenizer, texts in zip(
            (steps.vocabularies.source, steps.vocabularies.target), sides, strict=True
        )
    )
    verdict = Verdict(LOSS_NOT_FINITE, math.nan, 2.5, 3.25, in_a_row)
    steps.report(7, [collate(sources, targets)], verdict)


def reporter(folder, vocabularies, on_loss_spike="skip", rank=0) -> SkippedSteps:
    run = SimpleNamespace(folder=folder, processes=SimpleNamespace(rank=rank))
    return SkippedSteps(run, TrainerConfig(on_loss_spike=on_loss_spike), vocabularies)


def test_the_sentences_can_be_read_and_the_figures_are_beside_them(vocabularies, tmp_path, caplog):
    steps = reporter(tmp_path, vocabularies)
    with caplog.at_level(logging.WARNING):
        skip_a_step(steps)
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
    assert steps.error is None  # the run goes on


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (LOSS_NOT_FINITE, "the loss is inf"),
        (GRADIENT_NOT_FINITE, "the gradient norm is nan"),
        (JUMP, "the loss jumped by more than trainer.max_loss_spike=2.5"),
    ],
)
def test_a_reason_is_in_words(fault, words):
    assert Verdict(fault, math.inf, 2.5, math.nan, 1).reason(2.5) == words


def test_a_run_that_stops_says_how_to_go_on(vocabularies, tmp_path):
    steps = reporter(tmp_path, vocabularies, on_loss_spike="stop")
    skip_a_step(steps)
    assert "step 7 was left out: the loss is nan" in str(steps.error)
    assert f"resume={tmp_path} trainer.on_loss_spike=skip" in str(steps.error)


def test_many_in_a_row_end_a_run_that_would_skip_them(vocabularies, tmp_path):
    steps = reporter(tmp_path, vocabularies)
    skip_a_step(steps, MOST_IN_A_ROW - 1)
    assert steps.error is None
    skip_a_step(steps, MOST_IN_A_ROW)
    assert "The run diverged: its last 10 steps were bad. Start a new one with a lower" in (
        str(steps.error)
    )


def test_other_processes_write_files_of_their_own(vocabularies, tmp_path):
    skip_a_step(reporter(tmp_path, vocabularies, rank=3))
    assert (tmp_path / "bad_steps" / "step-00000007-rank3.json").is_file()


def test_a_folder_that_cannot_be_written_does_not_stop_the_run(vocabularies, tmp_path, caplog):
    (tmp_path / "bad_steps").touch()
    steps = reporter(tmp_path, vocabularies)
    skip_a_step(steps)
    assert "Its sentences could not be written" in caplog.text
    assert steps.error is None
