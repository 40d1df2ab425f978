"""The comparison of attention variants measures models, and reads those of trained runs."""

import csv
import json
import shutil

import pytest
import torch
from benchmarks import attention
from benchmarks.attention import compare_attention, measure_model, trained_models
from benchmarks.settings import CompareConfig

from seq2seq.config import DecodeConfig, TransformerConfig
from seq2seq.data.tokenizer import Tokenizer
from seq2seq.data.vocabularies import Vocabularies
from seq2seq.errors import BundleError, RunError
from seq2seq.inference.bundle import Bundle
from seq2seq.model.transformer import Transformer

TINY = TransformerConfig(
    d_model=16, n_heads=1, d_ff=16, encoder_layers=1, decoder_layers=1, max_length=32
)
SMALL = CompareConfig(sentences=2, length=4, repeats=1)


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


def test_runs_bring_their_bleu_and_those_of_one_name_are_told_apart(run, tmp_path):
    (one,) = trained_models([run / "bundle"])  # a bundle is its run's
    assert (one.name, one.model) == ("first", TINY)
    assert one.trained == {"bleu": 30.0, "bleu_of": "mine validation"}
    other = shutil.copytree(run, tmp_path / "first")
    assert [model.name for model in trained_models([run, other])] == [str(run), str(other)]


@pytest.mark.parametrize(
    "training", [{}, {"step": 7, "scores": {"BLEU": None}}, {"step": 7, "config": None}]
)
def test_damaged_scores_are_named(run, tmp_path, training):
    file = shutil.copytree(run, tmp_path / "a") / "bundle" / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "training": training}))
    with pytest.raises(RunError, match=r"cannot read the scores of .*a "):
        trained_models([tmp_path / "a"])


def test_a_missing_run_is_named_before_anything_is_written(tmp_path):
    output = tmp_path / "out"
    with pytest.raises(BundleError, match="no model folder"):
        compare_attention(CompareConfig(runs=str(tmp_path / "none"), output=str(output)))
    assert not output.exists()


def test_the_table_holds_every_model(run, tmp_path, capsys):
    other = shutil.copytree(run, tmp_path / "x" / "first")
    config = CompareConfig(
        runs=[str(run), str(other)], sentences=2, length=4, repeats=1, output=str(tmp_path / "out")
    )
    # More than a small model needs: a process that began with this peak would show no growth.
    torch.ones(2**27)
    compare_attention(config)
    printed = capsys.readouterr().out
    models = list(csv.DictReader((tmp_path / "out" / "models.csv").open()))
    assert [row["variant"] for row in models] == [str(run), str(other)]
    assert all(float(row["train_memory_mib"]) > 0 for row in models)
    assert all(row["variant"] in printed for row in models)


def test_a_want_of_memory_is_told_in_words(monkeypatch):
    def fails(*_):
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried 1 EiB")

    monkeypatch.setattr("benchmarks.measuring.ProcessPoolExecutor", lambda *_: _Here())
    monkeypatch.setattr(attention, "measure_model", fails)
    with pytest.raises(RunError, match=r"measuring big needs more memory .*lower sentences="):
        attention.row_of(attention.Compared("big", TINY, (300, 300)), SMALL, "cpu")


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
    measured = measure_model(TINY, (50, 50), SMALL, "cpu")
    assert seen == {"decode": False, "train": True}
    assert measured["cache_bytes_per_token"] == 2 * 16 * 4
