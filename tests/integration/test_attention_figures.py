"""The command that draws the figures of docs/attention.md."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NAMES = {"masks", "scale", "self_attention", "weights"}


@pytest.fixture(scope="module")
def figures(script, tmp_path_factory):
    folder = tmp_path_factory.mktemp("figures") / "new"
    result = script("attention_figures", "--output", folder)
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


def test_figures_that_are_there_are_not_replaced(script, tmp_path):
    (tmp_path / "masks.svg").write_text("mine")
    result = script("attention_figures", "--output", tmp_path)
    assert result.returncode == 1
    assert f"--output {tmp_path}: File exists. Name a new folder" in result.stderr
    assert (tmp_path / "masks.svg").read_text() == "mine"


def test_a_folder_that_cannot_be_is_one_plain_message(script, tmp_path):
    (tmp_path / "file").write_text("")
    output = tmp_path / "file" / "figures"
    result = script("attention_figures", "--output", output)
    assert result.returncode == 1
    assert f"--output {output}: Not a directory" in result.stderr
