"""A model translates a test set: what is recorded, where it goes, what is known of its training."""

from __future__ import annotations

import hashlib
import logging
import shutil
from dataclasses import asdict, replace

import pytest
from tiny_bundle import TEXTS, tiny_bundle, translator_of
from tiny_evaluation import write_lines

from seq2seq.config import (
    CleaningConfig,
    CorpusConfig,
    DataConfig,
    DecodeChanges,
    EvaluateConfig,
    TokenizerConfig,
)
from seq2seq.data.pipeline import prepare
from seq2seq.errors import DataError, RunError
from seq2seq.evaluation.evaluate import evaluate
from seq2seq.evaluation.record import Evaluation, read_lines, records_of
from seq2seq.evaluation.texts import score_texts, stored_texts
from seq2seq.inference.engines.torch import cpu_has

PAIRS = ["the big house is here\tla grande maison est ici", "a man reads\tun homme lit",
         "the man is old\tl'homme est vieux"]  # fmt: skip


@pytest.fixture
def corpus(tmp_path):
    write_lines(tmp_path / "corpus" / "test.tsv", ["en\tfr", *PAIRS])
    write_lines(tmp_path / "corpus" / "train.tsv", ["en\tfr", *[f"{a}\t{b}" for a, b in
                [(TEXTS[0], TEXTS[2]), (TEXTS[1], TEXTS[3])]], "a man\tun homme"])  # fmt: skip
    return DataConfig(path=str(tmp_path / "corpus"), cache=str(tmp_path / "cache"))


@pytest.fixture
def run(tmp_path, corpus):
    """A run that was trained on the corpus, as far as its bundle and its report say so."""
    bundle = tiny_bundle()
    cleaning = CleaningConfig(filters=[])
    prepared = prepare(corpus, cleaning, TokenizerConfig(), bundle.vocabularies)
    bundle.training["config"] = {"data": {"name": "files"}, "cleaning": asdict(cleaning)}
    bundle.save(tmp_path / "run" / "bundle")
    shutil.copy(prepared.folder / "report.json", tmp_path / "run/data_report.json")
    return tmp_path / "run"


def settings(run, corpus, **changes) -> EvaluateConfig:
    return EvaluateConfig(bundle=str(run), data=corpus, device="cpu", **changes)


def folder_of(run, name="files-test"):
    """Of the one evaluation of a test set."""
    [folder] = (run / "evaluation").glob(f"{name}-????????")
    return folder


def test_the_record_says_how_it_was_made_and_can_be_checked(run, corpus):
    record = evaluate(settings(run, corpus))
    folder = folder_of(run)
    sources = [pair.split("\t")[0] for pair in PAIRS]
    expected = translator_of(tiny_bundle()).translate_corpus(sources)
    assert read_lines(folder / "hypotheses.txt") == [str(one) for one in expected]
    assert read_lines(folder / "sources.txt") == sources
    weights = (run / "bundle" / "model.safetensors").read_bytes()
    assert record.model == {
        "folder": str(run), "sha256": hashlib.sha256(weights).hexdigest(), "step": 1,
        "precision": "float32",
    }  # fmt: skip
    assert (record.decode, record.label) == (asdict(tiny_bundle().decode), "files test")
    assert record.data["settings"] == asdict(corpus)
    assert Evaluation.read(folder / "evaluation.json") == record
    again = score_texts(stored_texts(record, folder), "fr")
    for name, value in vars(again).items():
        assert getattr(record, name) == value or name == "breakdowns"


def test_the_prepared_training_text_is_found_in_the_cache(run, corpus, tmp_path):
    record = evaluate(settings(run, corpus))
    assert record.overlap == {
        "training_text": next((tmp_path / "cache" / "corpora").iterdir()).name,
        "training_pairs": 3, "sources": 1, "pairs": 1, "examples": ["a man reads"],
    }  # fmt: skip
    (note,) = [note for note in record.notes if "training" in note]
    assert note.startswith("1 of 3 sources are in the training text (1 of them with the same")
    groups = {one.by: {g.name: g.sentences for g in one.groups} for one in record.breakdowns}
    assert groups["rarest source word in training"] == {"1-9": 3}
    assert groups["in training"] == {"yes": 1, "no": 2}


def test_a_run_tells_its_data_from_others_of_the_same_vocabulary(run, corpus, tmp_path):
    (prepared,) = (tmp_path / "cache" / "corpora").iterdir()
    shutil.copytree(prepared, prepared.with_name("files-copy"))
    assert evaluate(settings(run, corpus)).overlap["training_text"] == prepared.name


def test_it_says_why_training_text_is_not_read(run, corpus, tmp_path, caplog, monkeypatch):
    unknown = {}
    with caplog.at_level(logging.INFO):
        unknown["none"] = evaluate(settings(run, corpus, training_text="none"))
    assert "not compared with training text: training_text=none" in caplog.text
    monkeypatch.setattr("seq2seq.evaluation.evaluate.MAX_AUTO_PAIRS", 2)
    unknown["many"] = evaluate(settings(run, corpus))
    assert evaluate(settings(run, corpus, training_text="all")).overlap["training_pairs"] == 3
    (prepared,) = (tmp_path / "cache" / "corpora").iterdir()
    shutil.rmtree(prepared.parent)
    unknown["lost"] = evaluate(settings(run, corpus))
    (run / "data_report.json").write_text("[]")
    unknown["unreadable"] = evaluate(settings(run, corpus))
    (run / "data_report.json").unlink()
    unknown["alone"] = evaluate(settings(run, corpus))
    said = {name: record.overlap["unknown"] for name, record in unknown.items()}
    assert said["many"] == "it has 3 pairs; training_text=all reads them"
    place = "the cache (data.cache, or $SEQ2SEQ_CACHE)"
    assert said["alone"].startswith("the model has no run beside it")
    assert said["unreadable"].startswith("data_report.json of the run is damaged (ValueError")
    assert said["lost"] == f"it is not in {place}"
    assert str(tmp_path) not in "".join(said.values())  # records travel


def test_the_same_evaluation_is_replaced_and_no_other(run, corpus, tmp_path):
    greedy = {"decode": DecodeChanges(beam=1)}
    other = write_lines(tmp_path / "corpus" / "other.tsv", ["en\tfr", *PAIRS[1:]])
    precisions = ["bfloat16"] if cpu_has("bfloat16") else []
    for _ in range(2):
        evaluate(settings(run, corpus))
        evaluate(settings(run, corpus, **greedy))
        for precision in precisions:
            evaluate(settings(run, corpus, precision=precision))
        evaluate(settings(run, replace(corpus, test=str(other))))
    found = records_of(run)
    assert len(found) == len(list((run / "evaluation").iterdir())) == 3 + len(precisions)
    assert [path.parent.name.removeprefix("files-test-") for path in found] == [
        record.identity for record in found.values()
    ]
    bundle = tiny_bundle()
    bundle.model.output.weight.data += 1
    bundle.save(run / "bundle")
    record = evaluate(settings(run, corpus))
    assert {**records_of(run), **found} == records_of(run)
    (run / f"evaluation/files-test-{record.identity}/evaluation.json").write_text("{")
    evaluate(settings(run, corpus))  # whatever stands there is of this evaluation
    assert len(records_of(run)) == 4 + len(precisions)
    output = str(tmp_path / "out")
    evaluate(settings(run, corpus, output=output))
    evaluate(settings(run, corpus, output=output))
    before = (tmp_path / "out" / "evaluation.json").read_bytes()
    with pytest.raises(RunError, match=r"evaluation\.json or files beside it are of another"):
        evaluate(settings(run, corpus, output=output, **greedy))
    assert (tmp_path / "out" / "evaluation.json").read_bytes() == before


def test_a_name_with_a_slash_is_one_folder(run, corpus):
    evaluate(settings(run, replace(corpus, name="a/b"), training_text="none"))
    assert (folder_of(run, "a-b-test") / "evaluation.json").exists()


def test_files_of_the_user_and_older_records_are_left_alone(run, corpus, tmp_path):
    mine = write_lines(tmp_path / "mine" / "hypotheses.txt", ["à moi"])
    with pytest.raises(RunError, match="would be overwritten"):
        evaluate(settings(run, corpus, output=str(mine.parent)))
    assert mine.read_text() == "à moi\n"
    old = write_lines(run / "evaluation" / "files-test" / "evaluation.json", ["{}"])
    evaluate(settings(run, corpus))
    assert old.read_text() == "{}\n"
    assert (folder_of(run) / "evaluation.json").exists()


def test_the_members_of_a_mixture_are_groups(run, corpus):
    members = {
        name: CorpusConfig(path=corpus.path, val=None, test="test.tsv") for name in ("a", "b")
    }
    mixed = DataConfig(
        name="mixed", train=None, val=None, test=None, members=members, cache=corpus.cache
    )
    record = evaluate(settings(run, mixed))
    (groups,) = (one.groups for one in record.breakdowns if one.by == "corpus")
    assert [(group.name, group.sentences) for group in groups] == [("a", 3), ("b", 3)]
    assert groups[0].scores == groups[1].scores


def test_training_text_is_translated_as_it_was_written(run, corpus):
    """Without the variants that training adds to it."""
    data = replace(corpus, variants={"capitals": 1})
    evaluate(settings(run, data, split="train", training_text="none"))
    found = read_lines(folder_of(run, "files-train") / "sources.txt")
    assert found == [TEXTS[0], TEXTS[1], "a man"]


def test_an_empty_test_set_is_refused_before_anything_is_translated(run, tmp_path):
    write_lines(tmp_path / "empty" / "test.tsv", ["en\tfr"])
    with pytest.raises(DataError, match="data=files test holds no reference to compare with"):
        evaluate(settings(run, DataConfig(path=str(tmp_path / "empty"))))
