"""Translations that are there: scores, breakdowns, notes, and what cannot be scored."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import pytest
from tiny_evaluation import REFERENCES, given_files, tiny_evaluation

from seq2seq.config import DataConfig, EvaluateConfig
from seq2seq.errors import ConfigError, DataError, RunError
from seq2seq.evaluation.evaluate import evaluate
from seq2seq.evaluation.metrics import corpus_scores
from seq2seq.evaluation.record import Evaluation

HYPOTHESES = ["La maison est grande.", "Un homme lit lit lit lit.", "", "Deux chats dorment"]


@pytest.fixture(scope="module")
def made_once(tmp_path_factory):
    """The text of a record."""
    folder = tmp_path_factory.mktemp("record")
    tiny_evaluation(folder, HYPOTHESES)
    return (folder / "evaluation.json").read_text()


def test_the_record_says_what_the_texts_say(tmp_path):
    record = tiny_evaluation(tmp_path, HYPOTHESES)
    assert Evaluation.read(tmp_path / "evaluation.json") == record
    alone = corpus_scores(HYPOTHESES, REFERENCES)
    assert [(s.name, s.value, s.signature) for s in record.scores] == [
        (s.name, s.value, s.signature) for s in alone
    ]
    assert (record.sentences, record.exact_matches) == (4, 1)
    assert record.degenerate == {
        "any": 2, "empty": 1, "repetition": 1, "copy": 0, "too long": 0, "too short": 0,
    }  # fmt: skip
    assert record.model is record.decode is record.seconds is None
    assert record.versions["sacrebleu"] in alone[0].signature


def test_groups_hold_all_sentences_and_their_own_scores(tmp_path):
    record = tiny_evaluation(tmp_path, HYPOTHESES)
    (breakdown,) = record.breakdowns
    assert breakdown.by == "source words"
    assert [(own.name, own.sentences) for own in breakdown.groups] == [("0-5", 3), ("6-10", 1)]
    short = [0, 1, 3]
    own = corpus_scores([HYPOTHESES[i] for i in short], [REFERENCES[i] for i in short])
    expected = {score.name: score.value for score in own if score.name in ("BLEU", "chrF2")}
    assert breakdown.groups[0].scores == expected


def test_what_is_not_known_is_said(tmp_path):
    record = tiny_evaluation(tmp_path, HYPOTHESES, REFERENCES, None)
    assert (record.degenerate, record.breakdowns) == ({}, [])
    assert record.overlap == {"unknown": "no sources were given"}


def test_packed_files_are_read(tmp_path):
    files = given_files(tmp_path, HYPOTHESES)
    packed = tmp_path / "packed.gz"
    packed.write_bytes(gzip.compress("".join(f"{line}\r\n" for line in HYPOTHESES).encode()))
    plain, other = (
        evaluate(EvaluateConfig(**files)),
        evaluate(EvaluateConfig(**files | {"hypothesis": str(packed)})),
    )
    assert plain.scores == other.scores


def test_typography_tokens_and_empty_references_are_noted(tmp_path):
    notes = {}
    for name, hypotheses, references in (
        ("fine", REFERENCES, REFERENCES),
        ("typography", [line.replace("'", "’") for line in REFERENCES], REFERENCES),
        ("tokens", ["Un homme lit .", "l&apos; eau", "Il fait froid , non ?", "C'est bien."],
         REFERENCES),
        ("empty", REFERENCES, [*REFERENCES[:2], "", "  "]),
    ):  # fmt: skip
        notes[name] = tiny_evaluation(tmp_path / name, hypotheses, references).notes
    assert notes["fine"] == []
    (note,) = notes["typography"]
    assert re.match(r"BLEU is \d+\.\d higher when the punctuation .* is normalised", note)
    assert notes["tokens"][0].startswith("3 of 4 translations look tokenised (")
    assert notes["empty"][0].startswith("2 of 4 references are empty (lines 3, 4): ")


def test_french_typography_is_not_taken_for_tokens(tmp_path):
    french = ["Quoi ? Non !", "« Oui », dit-il ; puis : rien.", "L'homme, l’eau.", "3 % ..."]
    assert tiny_evaluation(tmp_path, french, french).notes == []


def test_a_language_that_moses_does_not_know_is_refused(tmp_path):
    with pytest.raises(DataError, match=r"language=french is none that Moses knows"):
        tiny_evaluation(tmp_path, HYPOTHESES, language="french")


def test_different_line_counts_are_refused_with_both(tmp_path):
    files = given_files(tmp_path, HYPOTHESES[:3])
    with pytest.raises(DataError, match=r"hypothesis\.txt has 3 lines but .*rence\.txt has 4: "):
        evaluate(EvaluateConfig(**files))


def test_texts_without_a_reference_are_refused(tmp_path):
    for references in ([], ["", " "]):
        files = given_files(tmp_path, references, references, None)
        with pytest.raises(DataError, match=r"reference\.txt holds no reference to compare with"):
            evaluate(EvaluateConfig(**files))


def test_a_record_is_replaced_by_that_of_the_same_texts_only(tmp_path):
    tiny_evaluation(tmp_path, HYPOTHESES)
    tiny_evaluation(tmp_path, HYPOTHESES)
    before = (tmp_path / "evaluation.json").read_bytes()
    for texts in ((HYPOTHESES, ["autre"] * 4), (REFERENCES, REFERENCES)):
        with pytest.raises(RunError, match=r"evaluation\.json .* are of another evaluation"):
            tiny_evaluation(tmp_path, *texts)
    assert (tmp_path / "evaluation.json").read_bytes() == before


def test_given_texts_may_have_the_names_of_an_evaluation(tmp_path):
    names = {"hypothesis": "hypotheses.txt", "reference": "references.txt"}
    files = given_files(tmp_path, HYPOTHESES, REFERENCES, None)
    given = {key: str(Path(files[key]).rename(tmp_path / name)) for key, name in names.items()}
    config = EvaluateConfig(**given, output=str(tmp_path / "evaluation.json"))
    evaluate(config)
    assert evaluate(config).files["hypotheses"].path == "hypotheses.txt"


def test_a_place_that_cannot_be_written_is_told_before_scoring(tmp_path, monkeypatch):
    monkeypatch.setattr("seq2seq.evaluation.evaluate.score_texts", lambda *_: 1 / 0)
    files = given_files(tmp_path, HYPOTHESES)
    with pytest.raises(RunError, match="cannot write the results to"):
        evaluate(EvaluateConfig(**files, output=f"{files['source']}/evaluation.json"))


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({}, r"bundle= is missing: .* hypothesis=FILE reference=FILE"),
        ({"hypothesis": "h"}, r"hypothesis= alone cannot be scored: give hypothesis=FILE refer"),
        ({"bundle": "m", "source": "s"}, r"bundle= translates a test set, and source= is for "),
        ({"hypothesis": "h", "reference": "r", "output": "out"}, r"output=out: .*=FILE\.json"),
        ({"bundle": "m", "output": "x.json"}, r"output=x\.json: .* a folder, output=FOLDER"),
        ({"bundle": "m", "data": DataConfig(name="../x")}, r"data\.name=\.\./x .* leave \.\. out"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(settings, why):
    with pytest.raises(ConfigError, match=why):
        EvaluateConfig(**settings)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "cannot read .* evaluate again, or delete it"),
        ('{"scores": {"BLEU": 31.0}}', r"not a record of this version .*its format is not named"),
        ('{"format": 99}', r"its format is 99, and this version reads 1"),
        ('{"format": 1}', r"is damaged \(KeyError\('scores'\)\): evaluate again"),
    ],
)
def test_records_that_cannot_be_read_are_refused(text, why, tmp_path):
    (tmp_path / "evaluation.json").write_text(text)
    with pytest.raises(RunError, match=why):
        Evaluation.read(tmp_path / "evaluation.json")


@pytest.mark.parametrize(
    "change",
    [
        lambda v: v["files"].pop("hypotheses"),
        lambda v: v["files"].pop("references"),
        lambda v: v["data"].pop("language"),
        lambda v: v.pop("versions"),
        lambda v: v["scores"][0].pop("value"),
        lambda v: v.update(model={}),
        lambda v: v.update(model={"sha256": "x"}),
    ],
)
def test_damaged_records_are_refused(change, made_once, tmp_path):
    values = json.loads(made_once)
    change(values)
    (tmp_path / "evaluation.json").write_text(json.dumps(values))
    with pytest.raises(RunError, match="is damaged"):
        Evaluation.read(tmp_path / "evaluation.json")


def test_the_record_is_plain_json_that_begins_with_its_format(tmp_path):
    tiny_evaluation(tmp_path, HYPOTHESES)
    values = json.loads((tmp_path / "evaluation.json").read_text())
    assert next(iter(values.items())) == ("format", 1)
    assert values["files"]["hypotheses"]["path"] == "hypothesis.txt"
