"""Word alignment: links between words that translate each other, from attention weights.

Shapes: S source and T target tokens, end marks included; I source and J target words.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from seq2seq.data.vocabularies import Vocabularies
from seq2seq.inference.text.step import Attention, Pieces, Step
from seq2seq.inference.text.tags import blanked, find_tags
from seq2seq.inference.translation import Translation

Links = list[tuple[int, int]]  # (source word, target word), from 0, ordered by target word

MIN_LINK_WEIGHT = 0.2


def bare_words(text: str) -> list[str]:
    """Return the words that `str.split` finds, with inline tags removed from each word."""
    bare = blanked(text, find_tags(text), "\0")
    return [bare[slice(*word.span())].replace("\0", "") for word in re.finditer(r"\S+", text)]


class Alignment(Step):
    """The step that finds which words of a sentence and of its translation translate each other."""

    name = "alignment"

    def __init__(
        self,
        vocabularies: Vocabularies,
        as_read: Callable[[str], str],
        as_written: Callable[[str], str],
    ):
        self.vocabularies, self.as_read, self.as_written = vocabularies, as_read, as_written

    def pieces_to_align(self, result: Translation, state: str) -> Pieces:
        source, target = self.vocabularies.source, self.vocabularies.target
        return (
            list(source.encode(map(self.as_read, bare_words(state)))),
            list(target.encode(map(self.as_written, bare_words(result.text)))),
        )

    def after(self, result: Translation, state: str, attention: Attention | None) -> Translation:
        if attention is None:
            return result
        source, target = (list(map(len, words)) for words in attention.pieces)
        return replace(result, alignment=word_links(attention.weights_TS, source, target))


def word_links(
    weights_TS: np.ndarray,
    source_lengths: Sequence[int],
    target_lengths: Sequence[int],
    least: float = MIN_LINK_WEIGHT,
) -> Links:
    """Link each target word to the source word that gets most of its attention.

    The weights of a source word are summed over its tokens, and averaged over the tokens of the
    target word. The source's end mark is no word: a target word that mostly attends to it may get
    no link.

    Args:
        weights_TS: as `Engine.attention` returns them.
        source_lengths, target_lengths: tokens of each word; a word without tokens has no links.
        least: smaller weights make no link.
    """
    words_S = np.repeat(np.arange(len(source_lengths)), source_lengths)
    words_T = np.repeat(np.arange(len(target_lengths)), target_lengths)
    weights_JI = np.zeros((len(target_lengths), len(source_lengths)))
    np.add.at(weights_JI, (words_T[:, None], words_S), weights_TS[:-1, :-1])
    weights_JI /= np.maximum(target_lengths, 1)[:, None]
    best_J = weights_JI.argmax(axis=1)
    return [(int(i), j) for j, i in enumerate(best_J) if weights_JI[j, i] >= least]
