"""The comparison of attention variants measures models, and reads those of trained runs."""

import json
import shutil

import pytest
import torch
from benchmarks.attention import compare_attention, measure, table, trained_model
from benchmarks.settings import CompareConfig

from seq2seq.bundle.bundle import Bundle
from seq2seq.config import DecodeConfig, TransformerConfig
from seq2seq.data.tokenizer import Tokenizer
from seq2seq.data.vocabularies import Vocabularies
from seq2seq.errors import BundleError
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


@pytest.mark.parametrize("training", [{}, {"step": 7, "scores": {"BLEU": None}}])
def test_a_bundle_without_a_score_has_none_in_the_table(run, tmp_path, training):
    file = shutil.copytree(run, tmp_path / "a") / "bundle" / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "training": training}))
    assert trained_model(str(tmp_path / "a")).trained["bleu"] == "-"


def test_a_missing_run_is_named(tmp_path):
    with pytest.raises(BundleError, match="no model folder"):
        compare_attention(CompareConfig(runs=str(tmp_path / "none")))


def test_trained_runs_are_measured_and_bring_their_bleu(run, capsys, caplog):
    caplog.set_level("INFO")
    # More than a small model needs: a process that began with this peak would show no growth.
    torch.ones(2**27)
    compare_attention(CompareConfig(runs=[str(run)], sentences=2, length=4, repeats=1))
    row = json.loads(capsys.readouterr().out)
    assert row["variant"] == str(run)
    assert (row["bleu"], row["bleu_of"]) == (30, "mine validation")
    assert row["train_memory_mib"] > 0
    assert str(run) in caplog.messages[-1]


def test_a_table_has_short_headings():
    rows = [("a b", 1234.5), ("-", 0)]
    assert list(table([{"variant": a, "tokens_per_second": b} for a, b in rows])) == [
        "variant   tokens",
        "             per",
        "          second",
        "    a b  1,234.5",
        "      -        0",
    ]


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
    measured = measure(TINY, (50, 50), SMALL, "cpu")
    assert seen == {"decode": False, "train": True}
    assert measured["cache_bytes_per_token"] == 2 * 16 * 4
