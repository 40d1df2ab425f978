"""COMET by its own command, for which a small program stands here: the package wants others than
this project, and its models are large."""

from __future__ import annotations

import hashlib
import sys

import numpy as np
import pytest
from tiny_evaluation import REFERENCES, given_files

from seq2seq.config import EvaluateConfig
from seq2seq.errors import RunError
from seq2seq.evaluation.comet import comet_score
from seq2seq.evaluation.evaluate import evaluate
from seq2seq.evaluation.record import Evaluation

# Its options and the file it writes, as unbabel-comet 2.2.7 has them; the score of a sentence is
# the share of its words that stand in the reference.
STAND_IN = f"""#!{sys.executable}
import argparse, json, os
parser = argparse.ArgumentParser()
for option in ("-s", "-t", "-r", "--model", "--to_json"):
    parser.add_argument(option)
parser.add_argument("--quiet", action="store_true")
options = parser.parse_args()
assert os.environ["HF_HUB_OFFLINE"] == "1"
if "broken" in options.model:
    raise SystemExit("no encoder here")
if "odd" in options.model:
    raise SystemExit(open(options.to_json, "w").write(open(options.model).read()))
lines = [open(path).read().splitlines() for path in (options.s, options.t, options.r)]
def score(hypothesis, reference):
    words = hypothesis.split()
    return sum(word in reference.split() for word in words) / max(1, len(words))
rows = [dict(src=s, mt=t, ref=r, COMET=score(t, r)) for s, t, r in zip(*lines)]
json.dump({{options.t: rows}}, open(options.to_json, "w"))
"""
HYPOTHESES = ["La maison est petite.", "Un homme lit.", "Il fait chaud.", "Deux chats dorment."]


@pytest.fixture
def settings(tmp_path):
    program = tmp_path / "comet-score"
    program.write_text(STAND_IN)
    program.chmod(0o755)
    for name in ("model.ckpt", "broken.ckpt"):
        (tmp_path / name).touch()

    def made(model: str = "model.ckpt", command: str = str(program)) -> EvaluateConfig:
        return EvaluateConfig(
            **given_files(tmp_path, HYPOTHESES),
            output=str(tmp_path / "evaluation.json"),
            comet=str(tmp_path / model),
            comet_command=command,
        )

    return made


def test_comet_is_the_mean_of_its_sentences_which_are_kept(settings, tmp_path):
    score = evaluate(settings()).score("COMET")
    assert score is not None
    each = [np.mean([w in r.split() for w in h.split()])
            for h, r in zip(HYPOTHESES, REFERENCES, strict=True)]  # fmt: skip
    assert score.value == pytest.approx(np.mean(each))
    assert score.low < score.value < score.high
    assert score.signature == f"model:model.ckpt|sha256:{hashlib.sha256(b'').hexdigest()}"
    record = Evaluation.read(tmp_path / "evaluation.json")
    kept = [float(line) for line in record.lines("comet", tmp_path)]
    assert comet_score(kept, score.signature) == score
    (tmp_path / "comet.txt").write_text("1.0\n" * 4)
    with pytest.raises(RunError, match=r"comet\.txt was changed"):
        record.lines("comet", tmp_path)


def test_what_is_missing_is_said_at_once(settings, tmp_path):
    with pytest.raises(RunError, match=r"needs the command nowhere, .*pip install unbabel-comet"):
        evaluate(settings(command="nowhere"))
    with pytest.raises(RunError, match=r"lost\.ckpt is not a model file: download one"):
        evaluate(settings("lost.ckpt"))
    assert not (tmp_path / "evaluation.json").exists()


@pytest.mark.parametrize(
    "written", ["[1]", '{"a": 1}', '{"a": [1]}', '{"a": [{"COMET": null}]}',
                '{"a": [{"COMET": NaN}]}', '{"a": [], "b": []}'],
)  # fmt: skip
def test_scores_of_another_shape_are_refused(written, settings, tmp_path):
    (tmp_path / "odd.ckpt").write_text(written)
    with pytest.raises(RunError, match="gave no scores"):
        evaluate(settings("odd.ckpt"))


def test_a_command_that_cannot_be_run_is_one_message(settings, tmp_path):
    program = tmp_path / "text"
    program.write_bytes(b"\0 no program")
    program.chmod(0o755)
    with pytest.raises(RunError, match=r"gave no scores \(OSError"):
        evaluate(settings(command=str(program)))


def test_what_a_failure_leaves_is_all_but_comet(settings, tmp_path):
    evaluate(settings())
    assert (tmp_path / "comet.txt").exists()
    with pytest.raises(RunError, match=r"Everything but COMET is kept in .*evaluation\.json"):
        evaluate(settings("broken.ckpt"))
    record = Evaluation.read(tmp_path / "evaluation.json")
    assert (record.sentences, record.score("COMET")) == (4, None)
    assert not (tmp_path / "comet.txt").exists()  # of the record before
    assert record.lines("hypotheses", tmp_path) == HYPOTHESES


def test_a_failure_shows_what_the_command_said(settings):
    with pytest.raises(RunError, match=r"gave no scores \(CalledProc(.|\n)*no encoder here"):
        evaluate(settings("broken.ckpt"))
