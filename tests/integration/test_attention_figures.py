"""The command that draws the figures of docs/attention.md."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from seq2seq.bundle.bundle import load_bundle
from seq2seq.config import RecurrentConfig
from seq2seq.model.build import build_model

ROOT = Path(__file__).resolve().parents[2]
NAMES = {"masks", "scale", "self_attention", "weights"}
SENTENCE = ("--sentence", "one two three")


@pytest.fixture(scope="module")
def figures(script, toy_run, tmp_path_factory):
    folder = tmp_path_factory.mktemp("figures") / "new"
    result = script("attention_figures", "--model", toy_run, "--output", folder, *SENTENCE)
    assert result.returncode == 0, result.stdout + result.stderr
    return folder


def texts(path) -> list[str]:
    tree = ElementTree.parse(path)
    return [element.text or "" for element in tree.iter() if element.tag.endswith("}text")]


def test_all_figures_are_valid_svg(figures):
    assert {path.stem for path in figures.iterdir()} == NAMES
    for path in figures.iterdir():
        assert ElementTree.parse(path).getroot().tag == "{http://www.w3.org/2000/svg}svg"


def test_the_page_shows_all_figures():
    page = (ROOT / "docs" / "attention.md").read_text(encoding="utf-8")
    assert set(re.findall(r"\(figures/(\w+)\.svg\)", page)) == NAMES


def test_weights_are_labelled_with_both_sides(figures):
    assert texts(figures / "weights.svg").count("</s>") >= 2
    labels = texts(figures / "self_attention.svg")
    assert "</s>" in labels
    assert "<s>" in labels


def test_figures_that_are_there_are_not_replaced(script, toy_run, tmp_path):
    (tmp_path / "masks.svg").write_text("mine")
    result = script("attention_figures", "--model", toy_run, "--output", tmp_path, *SENTENCE)
    assert result.returncode == 1
    assert f"--output {tmp_path}: File exists. Name a new folder" in result.stderr
    assert (tmp_path / "masks.svg").read_text() == "mine"


def test_a_folder_that_cannot_be_is_one_plain_message(script, toy_run, tmp_path):
    (tmp_path / "file").write_text("")
    output = tmp_path / "file" / "figures"
    result = script("attention_figures", "--model", toy_run, "--output", output, *SENTENCE)
    assert result.returncode == 1
    assert f"--output {output}: Not a directory" in result.stderr


def test_a_missing_model_is_one_plain_message(script, tmp_path):
    result = script("attention_figures", "--model", tmp_path / "none", "--output", tmp_path)
    assert result.returncode == 1
    assert result.stderr.startswith("error: no model folder")
    assert "Traceback" not in result.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("sentence", [" ", "one " * 100])
def test_a_sentence_that_does_not_fit_is_refused(script, toy_run, tmp_path, sentence):
    output = tmp_path / "new"
    result = script(
        "attention_figures", "--model", toy_run, "--output", output, "--sentence", sentence
    )
    assert result.returncode == 1
    assert "error: a figure of attention " in result.stderr


def test_a_recurrent_model_is_refused(script, toy_run, tmp_path):
    bundle = load_bundle(toy_run)
    config = RecurrentConfig(d_model=8, d_attention=8)
    bundle.model = build_model(config, *bundle.model.vocab_sizes)
    bundle.save(tmp_path / "bundle")
    model, output = tmp_path / "bundle", tmp_path / "new"
    result = script("attention_figures", "--model", model, "--output", output)
    assert result.returncode == 1
    assert "give a transformer" in result.stderr
