"""The figure of attention shows the weights, with their tokens, on any machine."""

from __future__ import annotations

import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
import torch
from tiny import tiny_recurrent
from tiny_bundle import tiny_bundle, translator_of

from seq2seq.data.tokenizer import BOS, EOS
from seq2seq.decoding.attention_head import AttentionHead
from seq2seq.errors import UserError
from seq2seq.inference.attention_figure import (
    CAPTION,
    Sentence,
    attention_figure,
    draw_attention,
)
from seq2seq.inference.engines.torch import TorchEngine
from seq2seq.inference.translator import Translator
from seq2seq.model.attention_maps import attention_maps

PAIR = ("the big house costs $5 or $6", "la maison")


@pytest.fixture(scope="module")
def translator() -> Translator:
    return translator_of(tiny_bundle())


def texts(path) -> list[str]:
    tree = ElementTree.parse(path)
    return [element.text or "" for element in tree.iter() if element.tag.endswith("}text")]


def frames(figure) -> list[tuple[float, float]]:
    """The upper left corner of each frame, in tokens."""
    return [patch.get_xy() for axes in figure.axes for patch in axes.patches]


def test_each_panel_shows_its_weights():
    rng = np.random.default_rng(0)
    maps = [rng.dirichlet(np.ones(4), size=(2, 3)) for _ in range(3)]
    source, target = ["a", "b", "c", "</s>"], ["x", "y", "</s>"]
    figure = attention_figure(Sentence(maps, source, target), AttentionHead(1, 0))
    [axes] = figure.axes
    expected = [panel for heads in maps for panel in (heads.mean(axis=0), *heads)]
    assert len(axes.collections) == 9
    for ours, theirs in zip(axes.collections, expected, strict=True):
        np.testing.assert_array_equal(ours.get_array(), theirs)
    names = {text.get_text(): text.get_position() for text in axes.texts}
    assert names.keys() > {"layer 0: mean of heads", "layer 2: mean of heads", "head 1"}
    [(left, top)] = frames(figure)
    assert top == names["layer 1: mean of heads"][1] + 0.3
    assert left == names["head 0"][0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["x", "y", "</s>"] * 3
    assert [label.get_text() for label in axes.get_xticklabels()] == ["a", "b", "c", "</s>"] * 3


def test_the_figure_of_a_pair_has_the_weights_of_the_model(translator, tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(
        "seq2seq.inference.attention_figure.attention_figure",
        lambda *arguments: drawn.append(arguments) or attention_figure(*arguments),
    )
    draw_attention(translator, [PAIR], tmp_path / "a.png")
    [((maps, source, target, title), head, _)] = drawn
    assert title == " → ".join(PAIR)
    encode = translator.vocabularies.source.encode
    ids = torch.tensor([[*encode([PAIR[0]])[0], EOS]])
    [model] = translator.engine.models
    of_model = attention_maps(
        model, ids, torch.ones_like(ids).bool(), torch.tensor([[BOS, *encode([PAIR[1]])[0]]])
    )
    for layer, weights in enumerate(maps):
        np.testing.assert_allclose(
            weights, of_model[f"decoder.{layer}.cross_attention"][0], atol=1e-6
        )
    assert (len(target), len(source)) == maps[0].shape[1:]
    assert head == AttentionHead(0)  # the last layer but one


def test_tokens_are_readable_and_dollars_are_no_mathematics(translator, tmp_path):
    draw_attention(translator, [PAIR], tmp_path / "a.svg")
    found = texts(tmp_path / "a.svg")
    assert found.count("</s>") == 2 + 3  # rows of two layers, columns of the mean and two heads
    assert "$" in found
    assert {"▁maison", "layer 0: mean of heads", "head 1"} <= set(found)
    assert all(line in found for line in CAPTION.splitlines())


@pytest.mark.parametrize(("s", "t"), [(3, 9), (12, 2), (1, 1)])
def test_the_caption_does_not_overlap_the_maps(s, t):
    maps = [np.random.default_rng(0).dirichlet(np.ones(s), size=(2, t))] * 2
    sentence = Sentence(maps, ["long word"] * s, ["word"] * t, "title " * 200)
    figure = attention_figure(sentence, AttentionHead(0))
    figure.canvas.draw()
    [axes], [caption] = figure.axes, figure.texts
    assert caption.get_window_extent().y1 <= axes.get_tightbbox().y0


def test_of_a_text_the_first_sentence_is_drawn_and_the_caption_says_so(translator, tmp_path):
    draw_attention(translator, [PAIR, ("a man", "un homme")], tmp_path / "a.svg")
    found = texts(tmp_path / "a.svg")
    assert found.count("layer 0: mean of heads") == 1
    assert "▁maison" in found
    assert "▁homme" not in found
    assert "The first of 2 sentences." in found


def test_a_recurrent_model_has_one_panel(translator, tmp_path):
    model = tiny_recurrent(vocab_size=translator.vocabularies.target.vocab_size)
    other = Translator(TorchEngine([model]), translator.vocabularies, translator.decode)
    draw_attention(other, [("a man", "un homme")], tmp_path / "a.svg")
    assert [text for text in texts(tmp_path / "a.svg") if "head" in text] == ["layer 0: head 0"]


def test_of_one_head_the_layer_that_alignments_come_from_has_the_frame():
    maps = [np.ones((1, 2, 2)) / 2] * 2
    figure = attention_figure(Sentence(maps, ["a", "b"], ["c", "d"]), AttentionHead(1, None))
    assert frames(figure) == [(0, 4)]


def test_a_picture_of_pixels_that_nobody_could_read_is_refused(translator, tmp_path, monkeypatch):
    monkeypatch.setattr("seq2seq.inference.attention_figure.LONGEST_SIDE", 60 * 3)  # 3 inches
    with pytest.raises(UserError, match=r"name a .pdf or .svg file"):
        draw_attention(translator, [("man " * 20, "un")], tmp_path / "a.png")
    draw_attention(translator, [("man " * 20, "un")], tmp_path / "a.svg")


def test_no_display_is_needed_and_pyplot_stays_out(tmp_path):
    code = (
        "import sys; from pathlib import Path; from tiny_bundle import tiny_bundle, translator_of;"
        "from seq2seq.inference.attention_figure import draw_attention;"
        f"assert 'matplotlib' not in sys.modules; p = Path({str(tmp_path / 'a.png')!r});"
        "draw_attention(translator_of(tiny_bundle()), [('a man', 'un homme 你好')], p);"
        "assert 'matplotlib.pyplot' not in sys.modules"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False,
        env={"PYTHONPATH": "tests/reference", "PATH": "", "OMP_NUM_THREADS": "1",
             "MPLBACKEND": "TkAgg", "HOME": str(tmp_path)},
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert "Glyph" not in result.stderr  # a box stands for what the font lacks
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("pair", "name", "message"),
    [
        (("", "x"), "a.png", "one is empty"),
        (("x", " "), "a.png", "one is empty"),
        (("man " * 30, "x"), "a.png", "tokens, and a figure of attention has room for 24"),
        (PAIR, "a.jpeg", "is a .pdf, .png or .svg file: "),
        (PAIR, "none/a.png", "cannot be written: No such file or directory"),
    ],
)
def test_mistakes_are_one_message(translator, tmp_path, pair, name, message):
    with pytest.raises(UserError, match=re.escape(message)):
        draw_attention(translator, [pair], tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_an_engine_without_weights_is_refused(translator, tmp_path):
    other = Translator(object(), translator.vocabularies, translator.decode)
    with pytest.raises(UserError, match="only the torch engine has"):
        draw_attention(other, [PAIR], tmp_path / "a.png")
