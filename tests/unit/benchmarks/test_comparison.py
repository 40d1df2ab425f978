import csv
import json
import shutil
from dataclasses import asdict, replace

import pytest
import torch
from tiny_evaluation import tiny_evaluation

from seq2seq.benchmarks import attention_calls
from seq2seq.benchmarks import compare_attention as module
from seq2seq.benchmarks.compare_attention import compare_attention
from seq2seq.benchmarks.models import Work, measure_model
from seq2seq.benchmarks.settings import CompareConfig
from seq2seq.config import DecodeConfig, TransformerConfig
from seq2seq.data.tokenizer import Tokenizer
from seq2seq.data.vocabularies import Vocabularies
from seq2seq.errors import BundleError, RunError
from seq2seq.evaluation.record import Score
from seq2seq.inference.bundle import Bundle
from seq2seq.model.transformer import Transformer

TINY = TransformerConfig(
    d_model=16, n_heads=1, d_ff=16, encoder_layers=1, decoder_layers=1, max_length=32
)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run whose best validation BLEU was 30."""
    tokenizer = Tokenizer.train(["the house is big", "la maison est grande"] * 5, 280)
    model = Transformer(TINY, tokenizer.vocab_size)
    training = {"step": 7, "scores": {"BLEU": 30.0}, "config": {"data": {"name": "mine"}}}
    folder = tmp_path_factory.mktemp("runs") / "first"
    vocabularies = Vocabularies(tokenizer, tokenizer)
    Bundle(model, vocabularies, DecodeConfig(), training).save(folder / "bundle")
    return folder


def copy_of(run, folder):
    return shutil.copytree(run, folder)


def evaluate(run, data: str, split: str, bleu: float, lines: str = "oui", **changes) -> None:
    folder = run / "evaluation" / "-".join([data, split, *map(str, changes), lines])
    folder.mkdir(parents=True)
    record = tiny_evaluation(folder, ["non"], [lines], None)
    made = {"step": 7, "decode": asdict(DecodeConfig())} | changes
    replace(
        record,
        scores=[Score("BLEU", bleu, "")],
        data=record.data | {"name": data, "split": split},
        model={"step": made["step"], "sha256": "", "precision": "float32"},
        decode=made["decode"],
    ).write(folder / "evaluation.json")


def compared(*runs):
    return [(c.name, c.bleu, c.bleu_of) for c in module._of_runs(list(runs))]


def test_runs_are_compared_by_a_test_set_that_all_were_scored_on(run, tmp_path):
    a, b = copy_of(run, tmp_path / "a"), copy_of(run, tmp_path / "b")
    assert compared(a, b) == [("a", 30.0, "mine validation"), ("b", 30.0, "mine validation")]
    evaluate(a, "mine", "test", 31.0)
    evaluate(a, "mine", "val", 30.0)
    assert compared(a) == [("a", 31.0, "mine test")]
    assert compared(a, b) == [("a", 30.0, "mine validation"), ("b", 30.0, "mine validation")]
    evaluate(b, "other", "test", 99.0)
    evaluate(b, "mine", "test", 32.0)
    assert compared(a, b) == [("a", 31.0, "mine test"), ("b", 32.0, "mine test")]


def test_only_the_same_test_set_search_and_weights_are_compared(run, tmp_path):
    a, b = copy_of(run, tmp_path / "a"), copy_of(run, tmp_path / "b")
    for folder, bleu in ((a, 31.0), (b, 32.0)):
        evaluate(folder, "mine", "test", bleu)
        evaluate(folder, "mine", "test", 1.0, step=6)
        evaluate(folder, "mine", "test", 2.0, decode=asdict(DecodeConfig(beam=1)))
    assert compared(a, b) == [("a", 31.0, "mine test"), ("b", 32.0, "mine test")]
    c, d = copy_of(run, tmp_path / "c"), copy_of(run, tmp_path / "d")
    evaluate(c, "files", "test", 31.0, "oui")
    evaluate(d, "files", "test", 32.0, "non")
    assert [of for _, _, of in compared(c, d)] == ["mine validation"] * 2


def test_runs_of_one_name_are_told_apart(run, tmp_path):
    a, b = copy_of(run, tmp_path / "x" / "a"), copy_of(run, tmp_path / "y" / "a")
    evaluate(a, "mine", "test", 31.0)
    assert compared(a / "bundle") == [("a", 31.0, "mine test")]  # a bundle is its run's
    assert [name for name, _, _ in compared(a, b)] == [str(a), str(b)]


def test_damaged_scores_and_missing_runs_are_named(run, tmp_path):
    a = copy_of(run, tmp_path / "a")
    evaluate(a, "mine", "test", 31.0)
    (file,) = a.glob("evaluation/*/evaluation.json")
    for text in ("{", '{"format": 1}', file.read_text().replace('"value": 31', '"value": "x"')):
        file.write_text(text)
        with pytest.raises(RunError, match=r"evaluation\.json .* evaluate again, or delete it"):
            compared(a)
    file.write_text('{"scores": {"BLEU": 31.0}}')  # of an older version
    assert compared(a) == [("a", 30.0, "mine validation")]
    shutil.rmtree(a / "evaluation")
    config = json.loads((a / "bundle" / "config.json").read_text())
    for training in ({}, {"step": 7, "scores": {"BLEU": None}}, {"step": 7, "config": None}):
        (a / "bundle" / "config.json").write_text(json.dumps({**config, "training": training}))
        with pytest.raises(RunError, match=r"cannot read the scores of .*a "):
            compared(a)
    output = tmp_path / "out"
    with pytest.raises(BundleError, match="no model folder"):
        compare_attention(CompareConfig(runs=str(tmp_path / "none"), output=str(output)))
    assert not output.exists()


def test_tables_and_figure_hold_every_model_and_call(run, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(attention_calls, "LENGTHS", (8,))
    monkeypatch.setattr(attention_calls, "TOKENS", 16)
    bars = []
    from matplotlib.axes import Axes

    barh = Axes.barh
    monkeypatch.setattr(Axes, "barh", lambda *args, **kw: bars.append(args[2]) or barh(*args, **kw))
    other = copy_of(run, tmp_path / "x" / "first")
    config = CompareConfig(
        runs=[str(run), str(other)], sentences=2, length=4, repeats=1, output=str(tmp_path / "out")
    )
    # More than a small model needs: a process that began with this peak would show no growth.
    torch.ones(2**27)
    compare_attention(config)
    printed = capsys.readouterr().out
    models, calls = (
        list(csv.DictReader((tmp_path / "out" / f"{name}.csv").open()))
        for name in ("models", "calls")
    )
    assert [row["variant"] for row in models] == [str(run), str(other)]
    assert all(float(row["train_memory_mib"]) > 0 for row in models)
    assert len(calls) == 7
    assert all(row["case"] in printed for row in calls)
    columns = [column for column, _ in module.PANELS] + ["bleu"]
    assert bars == [[float(row[column]) for row in models] for column in columns]


def test_a_want_of_memory_is_told_in_words(monkeypatch):
    def fails(*_):
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried 1 EiB")

    monkeypatch.setattr(module, "ProcessPoolExecutor", lambda *_: _Here())
    monkeypatch.setattr(module, "measure_model", fails)
    with pytest.raises(RunError, match=r"measuring big needs more memory .*lower sentences="):
        module._measure(module._Compared("big", TINY, 300), CompareConfig(), "cpu")


class _Here:
    """An executor that works at once, in this process."""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None

    def submit(self, function, *arguments):
        self.result = lambda: function(*arguments)
        return self


def test_decoding_is_measured_without_dropout_and_training_with(monkeypatch):
    seen = {}
    step, forward = Transformer.decode_step, Transformer.forward

    def decode_step(self, *args):
        seen["decode"] = self.training
        return step(self, *args)

    def whole(self, *args):
        seen["train"] = self.training
        return forward(self, *args)

    monkeypatch.setattr(Transformer, "decode_step", decode_step)
    monkeypatch.setattr(Transformer, "forward", whole)
    measured = measure_model(TINY, Work(2, 4, 1, (50, 50), "cpu"))
    assert seen == {"decode": False, "train": True}
    assert measured.cache_bytes_per_token == 2 * 16 * 4
