"""`check=` computes every number again, and names what differs."""

from __future__ import annotations

import json

import pytest
from tiny_evaluation import REFERENCES, SOURCES, tiny_evaluation, write_lines

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
        (lambda v: v["data"].update(fingerprint="0"), r"data\.fingerprint is 0 there and \w{16}"),
        (lambda v: v["notes"].append("all is well"), r"notes is \['all is well'\] there and \[\]"),
    ],
)  # fmt: skip
def test_a_number_that_was_changed_is_named(change, said, record):
    values = json.loads(record.read_text())
    change(values)
    record.write_text(json.dumps(values))
    with pytest.raises(RunError, match=f"does not agree with its texts:\n  {said}"):
        check(record)


def test_overlap_is_checked_by_the_groups(tmp_path):
    training = write_lines(tmp_path / "train.tsv", ["en\tfr", f"{SOURCES[1]}\tx"])
    record = tmp_path / "evaluation.json"
    tiny_evaluation(tmp_path, HYPOTHESES, training_text=str(training))
    check(record)
    values = json.loads(record.read_text())
    values["overlap"].update(sources=0, examples=[])
    record.write_text(json.dumps(values))
    with pytest.raises(RunError, match=r"overlap\.sources is 0 there and 1 by its texts\n  overl"):
        check(record)


def test_the_seed_is_that_of_the_record(record, monkeypatch):
    monkeypatch.setenv("SACREBLEU_SEED", "7")
    check(record)
    tiny_evaluation(record.parent, HYPOTHESES)
    assert json.loads(record.read_text())["intervals"]["seed"] == "7"
    monkeypatch.delenv("SACREBLEU_SEED")
    check(record)
    monkeypatch.setenv("SACREBLEU_SEED", "none")
    with pytest.raises(RunError, match="SACREBLEU_SEED=none draws other resamples each time"):
        tiny_evaluation(record.parent, HYPOTHESES)


def test_a_kept_result_is_checked_with_the_test_set(tmp_path):
    """Of which only translations and record are kept; groups and the test set are elsewhere."""
    training = write_lines(tmp_path / "train.tsv", ["en\tfr", f"{SOURCES[1]}\tx"])
    tiny_evaluation(tmp_path, HYPOTHESES, training_text=str(training))
    texts = {name: (tmp_path / f"{name}.txt").rename(tmp_path / f"{name}.en")
             for name in ("reference", "source")}  # fmt: skip
    (tmp_path / "groups.tsv").unlink()
    with pytest.raises(RunError, match=r"source\.txt is not there, .* source=FILE"):
        check(tmp_path)
    with pytest.raises(RunError, match=r"source=.*reference\.en holds other lines"):
        check(tmp_path, {"source": texts["reference"]})
    said = check(tmp_path, texts)
    assert said.endswith("; left out: by rarest source word in training, by in training, overlap")
    values = json.loads((tmp_path / "evaluation.json").read_text())
    values["exact_matches"] = 3
    (tmp_path / "evaluation.json").write_text(json.dumps(values))
    with pytest.raises(RunError, match="exact_matches is 3 there and 1 by its texts"):
        check(tmp_path, texts)


def test_texts_that_were_changed_or_lost_are_named(record):
    hypotheses = record.with_name("hypothesis.txt")
    hypotheses.write_text("\n".join(REFERENCES))
    with pytest.raises(RunError, match=r"hypothesis\.txt was changed after it was scored"):
        check(record)
    hypotheses.unlink()
    with pytest.raises(DataError, match=r"cannot read .*hypothesis\.txt"):
        check(record)


def test_the_command_exits_with_1_and_no_traceback(record, script):
    reference = (record.parent / "reference.txt").rename(record.parent / "elsewhere")
    good = script("evaluate", f"check={record}", f"reference={reference}")
    assert good.returncode == 0, good.stderr
    assert "all numbers are those" in good.stdout
    record.write_text(record.read_text().replace('"exact_matches": 1', '"exact_matches": 0'))
    reference.rename(record.parent / "reference.txt")
    bad = script("evaluate", f"check={record}")
    assert bad.returncode == 1
    assert "exact_matches is 0 there and 1 by its texts" in bad.stderr
    assert "Traceback" not in bad.stderr
