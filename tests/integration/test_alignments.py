"""What a trained model says of given pairs: which words belong together, and how likely they are.

Each word of the toy corpus is translated by one word in the same place.
"""

from __future__ import annotations

import json

import pytest
from conftest import WORDS

from seq2seq.inference.translator import Translator

SENTENCES = ["one two three four", "seven", "nine eight seven six five four three two"]


@pytest.fixture(scope="module")
def translator(toy_run) -> Translator:
    return Translator.load(toy_run, "cpu")


def test_training_stores_the_head_that_aligns_and_it_does(translator, toy_run):
    stored = json.loads((toy_run / "bundle" / "config.json").read_text())["alignment"]
    assert stored == vars(translator.engine.heads[0])
    assert stored["layer"] in (0, 1)  # of this model; the default counts from the end
    for text, best in zip(SENTENCES, translator.translate(SENTENCES, align=True), strict=True):
        places = range(len(text.split()))
        assert best.text.split() == [WORDS[word] for word in text.split()]
        assert best.alignment == [(place, place) for place in places]


def test_right_translations_score_above_wrong_ones(script, toy_run, tmp_path):
    right = [" ".join(WORDS[word] for word in text.split()) for text in SENTENCES]
    wrong = [right[1], right[2], right[0]]
    (tmp_path / "en").write_text("\n".join(SENTENCES * 2) + "\n")
    (tmp_path / "fr").write_text("\n".join(right + wrong) + "\n")
    result = script("score", "--model", toy_run, tmp_path / "en", tmp_path / "fr")
    assert result.returncode == 0, result.stderr
    scores = [float(line.split("\t")[0]) for line in result.stdout.splitlines()]
    assert min(scores[:3]) > -2 > -8 > max(scores[3:])
