"""The translations of a text from those of its pieces."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from seq2seq.inference.alignment import Links
from seq2seq.inference.layout import Layout
from seq2seq.inference.source import Candidates
from seq2seq.inference.translation import Translation, joined


def join_pieces(layout: Layout, parts: Sequence[Candidates], n_best: int) -> Translation:
    """The best translation with its alternatives: the i-th best of all pieces together.

    Args:
        layout: of the text.
        parts: the translations of each of its pieces, of which there is one at least.
        n_best: translations of the text, at most.
    """
    found: dict[str, Translation] = {}  # two token sequences may be the same text
    for rank in range(max(map(len, parts))):
        chosen = [candidates[min(rank, len(candidates) - 1)] for candidates in parts]
        texts = [one.text for one in chosen]
        one = joined(chosen, layout.fill(texts)).noted(*layout.notes)
        pairs = list(zip(layout.pieces, texts, strict=True))
        one = dataclasses.replace(one, alignment=_links(layout, chosen), parts=pairs)
        found.setdefault(one.text, one)
    best, *others = list(found.values())[:n_best]
    return dataclasses.replace(best, alternatives=others)


def _links(layout: Layout, parts: Sequence[Translation]) -> Links:
    """The links of a text from those of its pieces."""
    if not any(part.alignment for part in parts):
        return []
    firsts = layout.first_words(layout.pieces), layout.first_words([part.text for part in parts])
    each = zip(parts, *firsts, strict=True)
    return [(s + i, t + j) for part, i, j in each for s, t in part.alignment]
