"""The small picture of attention: dark where a head looked, as large as its words need."""

from __future__ import annotations

import numpy as np
import pytest

from seq2seq.inference.attention_figure import LONGEST, head_picture

SOURCE, TARGET = ["▁the", "▁$house", "</s>"], ["▁la", "▁maison", "</s>"]


def test_cells_are_the_darker_the_more_was_looked_at():
    weights_TS = np.array([[1.0, 0.0, 0.0], [0.0, 0.5, 0.5], [0.0, 0.0, 1.0]])
    pixels = head_picture(weights_TS, SOURCE, TARGET)
    assert pixels.dtype == np.uint8
    # Blue is what is coloured at all: the words are grey and black.
    blue = pixels[..., 2].astype(int) - pixels[..., 0]
    rows, columns = np.nonzero(blue > 20)
    top, left = rows.min(), columns.min()
    height, width = (rows.max() - top + 1) / 3, (columns.max() - left + 1) / 3
    light = np.array(
        [
            [
                pixels[int(top + (t + 0.5) * height), int(left + (s + 0.5) * width)].sum()
                for s in range(3)
            ]
            for t in range(3)
        ]
    )
    assert light[0, 0] == light[2, 2] < light[1, 1] == light[1, 2] < light[0, 1]
    assert light[0, 1] == light[0, 2] > 3 * 240  # all but white


@pytest.mark.parametrize("tokens", [1, 5, 60])
def test_a_longer_sentence_is_a_larger_picture(tokens):
    weights_TS = np.full((tokens, tokens), 1 / tokens)
    height, width, channels = head_picture(weights_TS, ["▁w"] * tokens, ["▁m"] * tokens).shape
    assert channels == 3
    assert tokens * 10 < height < tokens * 13 + 60
    assert tokens * 10 < width < tokens * 13 + 60


def test_what_is_long_is_cut():
    weights_TS = np.full((1000, 300), 1 / 300)
    pixels = head_picture(weights_TS, ["▁w" * 500] * 300, ["\u202e"] * 1000)
    assert LONGEST * 10 < min(pixels.shape[:2]) <= max(pixels.shape[:2]) < LONGEST * 13 + 200
