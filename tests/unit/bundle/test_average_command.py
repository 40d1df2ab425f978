"""Bundles of averaged weights, against numpy; what cannot be averaged is refused by name."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
import torch
from tiny import tiny_transformer

from seq2seq.bundle.averaging import save_snapshot
from seq2seq.bundle.bundle import Bundle, load_bundle
from seq2seq.cli.average import average
from seq2seq.config import AverageConfig, DecodeConfig
from seq2seq.data.tokenizer import Tokenizer
from seq2seq.data.vocabularies import Vocabularies
from seq2seq.errors import BundleError, RunError

WORDS = ["the house is big", "la maison est grande"] * 5


def bundle(folder: Path, seed: int, text=WORDS, normalise=("nfc",), **model) -> Bundle:
    shared = Tokenizer.train(text, 280)
    network = tiny_transformer(seed, shared.vocab_size, **model)
    training = {"step": 7, "scores": {"BLEU": 12.0}, "config": {"data": {"name": "mine"}}}
    made = Bundle(network, Vocabularies(shared, shared), DecodeConfig(beam=2), training,
                  list(normalise))
    made.save(folder)
    return made


def run_with_snapshots(folder: Path) -> list[dict[str, np.ndarray]]:
    """A run whose snapshots at steps 10, 20, 30, 40 have BLEU 4, 3, 2, 5."""
    bundle(folder / "bundle", 0, tie_embeddings="all")
    for number, bleu in enumerate([4.0, 3.0, 2.0, 5.0], 1):
        model = tiny_transformer(number, 280, tie_embeddings="all")
        save_snapshot(model, folder, 10 * number, bleu)
    return [safetensors.numpy.load_file(path) for path in sorted(folder.glob("snapshots/*"))]


def assert_mean(folder: Path, parts: list[dict[str, np.ndarray]]) -> None:
    found = safetensors.numpy.load_file(folder / "model.safetensors")
    assert found.keys() == parts[0].keys()
    for name, value in found.items():
        mean = np.mean([part[name].astype(np.float64) for part in parts], axis=0)
        np.testing.assert_array_equal(value, mean.astype(np.float32), err_msg=name)


@pytest.mark.parametrize(("by", "steps"), [("last", [20, 30, 40]), ("best", [10, 20, 40])])
def test_the_snapshots_of_a_run_are_averaged(tmp_path, by, steps):
    parts = run_with_snapshots(tmp_path / "run")
    output = tmp_path / "new" / "averaged"
    average(AverageConfig(run=str(tmp_path / "run"), average=3, by=by, output=str(output)))
    assert_mean(output, [parts[step // 10 - 1] for step in steps])
    made = load_bundle(output)
    assert made.decode.beam == 2
    assert made.normalise == ["nfc"]
    assert made.training["averaged"] == [f"step {step}" for step in steps]
    assert (made.training["step"], made.training["scores"]) == (steps[-1], {})
    card = (output / "README.md").read_text()
    assert "an average, of " + ", ".join(made.training["averaged"]) in card
    assert "not known" in card


def test_bundles_and_runs_are_averaged(tmp_path):
    folders = [tmp_path / "a", tmp_path / "b" / "bundle", tmp_path / "c"]
    for seed, folder in enumerate(folders):
        bundle(folder, seed, dropout=0.1 * seed)  # which changes nothing in a trained model
    inputs = [str(tmp_path / name) for name in "abc"]
    output = tmp_path / "out"
    average(AverageConfig(inputs=inputs, output=str(output)))
    assert_mean(output, [safetensors.numpy.load_file(f / "model.safetensors") for f in folders])
    assert json.loads((output / "config.json").read_text())["training"]["averaged"] == inputs


def test_the_mean_of_weights_in_16_bits_is_not_rounded_to_them(tmp_path):
    """It falls between their values, also beside one of 32 bits."""
    bundle(tmp_path / "a", 0).save(tmp_path / "a", dtype=torch.float16)
    bundle(tmp_path / "b", 1).save(tmp_path / "b", dtype=torch.float16)
    bundle(tmp_path / "c", 2)
    inputs = [str(tmp_path / name) for name in "abc"]
    average(AverageConfig(inputs=inputs, output=str(tmp_path / "out")))
    assert_mean(tmp_path / "out", [
        safetensors.numpy.load_file(tmp_path / name / "model.safetensors") for name in "abc"
    ])  # fmt: skip


def test_the_average_of_a_model_with_itself_translates_as_it_does(tmp_path):
    made = bundle(tmp_path / "a", 1)
    bundle(tmp_path / "b", 1)
    output = tmp_path / "out"
    average(AverageConfig(inputs=[str(tmp_path / "a"), str(tmp_path / "b")], output=str(output)))
    ours, theirs = load_bundle(output).model.state_dict(), made.model.state_dict()
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)


@pytest.mark.parametrize(
    ("other", "text"),
    [
        ({"d_ff": 32}, r"model\.d_ff is 24 there and 32 here"),
        ({"norm": "post", "d_ff": 32}, r"model\.d_ff is .*; model\.norm is pre there and post"),
        ({"text": ["another text"] * 9}, r"the vocabulary is \w+ there and \w+ here"),
        ({"normalise": ()}, r"normalise is \['nfc'\] there and \[\] here"),
    ],
)
def test_different_models_are_refused_and_the_differences_named(tmp_path, other, text):
    bundle(tmp_path / "a", 0)
    bundle(tmp_path / "b", 1, **other)
    config = AverageConfig(
        inputs=[str(tmp_path / "a"), str(tmp_path / "b")], output=str(tmp_path / "out")
    )
    with pytest.raises(BundleError, match=text):
        average(config)
    assert not (tmp_path / "out").exists()


def test_an_output_that_exists_is_not_overwritten(tmp_path):
    output = tmp_path / "out"
    output.mkdir()
    with pytest.raises(RunError, match=r"output=.*out exists already: choose another"):
        average(AverageConfig(run=str(tmp_path), output=str(output)))


@pytest.mark.parametrize(
    ("kept", "text"),
    [
        (4, ": 4, and average=5 were asked for. Take fewer, or train with "),
        (0, ": 0, and average=5 were asked for. Take fewer, or train with "),
    ],
)
def test_a_run_with_too_few_snapshots_says_how_to_get_more(tmp_path, kept, text):
    run_with_snapshots(tmp_path / "run")
    for path in sorted((tmp_path / "run" / "snapshots").iterdir())[kept:]:
        path.unlink()
    config = AverageConfig(run=str(tmp_path / "run"), average=5, output=str(tmp_path / "out"))
    with pytest.raises(RunError) as error:
        average(config)
    assert text in str(error.value)
    assert "checkpoint.average=N, which keeps the weights of N validations" in str(error.value)
    assert not (tmp_path / "out").exists()


def test_damaged_weights_are_named(tmp_path):
    run_with_snapshots(tmp_path / "run")
    config = AverageConfig(
        inputs=[str(tmp_path / "run"), str(tmp_path / "run")], output=str(tmp_path / "out")
    )
    file = tmp_path / "run" / "bundle" / "model.safetensors"
    whole = file.read_bytes()
    file.write_bytes(whole[:-100])
    with pytest.raises(BundleError, match=r"cannot read the weights .*model\.safetensors"):
        average(config)
