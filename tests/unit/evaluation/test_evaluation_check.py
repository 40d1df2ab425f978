"""`--check` computes every number again, and names what differs."""

from __future__ import annotations

import json

import pytest
from tiny_evaluation import REFERENCES, tiny_evaluation

from seq2seq.errors import DataError, RunError
from seq2seq.evaluation.check import check

HYPOTHESES = ["La maison est grande.", "Un homme lit un livre.", "Il fait froid.", "Deux chats."]


@pytest.fixture
def record(tmp_path):
    tiny_evaluation(tmp_path, HYPOTHESES)
    return tmp_path / "evaluation.json"


def test_a_record_agrees_with_its_texts_wherever_they_are_moved(record):
    assert check(record).endswith("all numbers are those of its 4 sentences")
    moved = record.parent.rename(record.parent.with_name("moved"))
    assert check(moved).startswith(str(moved))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda v: v["scores"][0].update(value=v["scores"][0]["value"] + 1e-12), r"scores\[BLEU\]"),
        (lambda v: v["scores"][3].update(high=1.0), r"scores\[TER\]\.high is 1\.0 there and \d"),
        (lambda v: v.update(exact_matches=2), r"exact_matches is 2 there and 1 by its texts"),
        (lambda v: v["degenerate"].update(copy=7), r"degenerate\.copy is 7 there"),
        (lambda v: v["breakdowns"][0]["groups"][1].update(sentences=9),
         r"breakdowns\[source words\]\.groups\[6-10\]\.sentences is 9 there and 1"),
        (lambda v: v["versions"].update(sacrebleu="1.0") or v.update(sentences=5),
         r"sentences is 5 there and 4 by its texts\n  sacrebleu 1\.0 then, \d"),
    ],
)  # fmt: skip
def test_a_number_that_was_changed_is_named(change, said, record):
    values = json.loads(record.read_text())
    change(values)
    record.write_text(json.dumps(values))
    with pytest.raises(RunError, match=f"does not agree with its texts:\n  {said}"):
        check(record)


def test_texts_that_were_changed_or_lost_are_named(record):
    hypotheses = record.with_name("hypothesis.txt")
    hypotheses.write_text("\n".join(REFERENCES))
    with pytest.raises(RunError, match=r"hypothesis\.txt was changed after it was scored"):
        check(record)
    hypotheses.unlink()
    with pytest.raises(DataError, match=r"cannot read .*hypothesis\.txt"):
        check(record)


def test_the_command_exits_with_1_and_no_traceback(record, script):
    good = script("evaluate", "--check", record)
    assert good.returncode == 0, good.stderr
    assert "all numbers are those" in good.stdout
    record.write_text(record.read_text().replace('"exact_matches": 1', '"exact_matches": 0'))
    bad = script("evaluate", f"--check={record}")
    assert bad.returncode == 1
    assert "exact_matches is 0 there and 1 by its texts" in bad.stderr
    assert "Traceback" not in bad.stderr
