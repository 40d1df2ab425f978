"""Translations with the inline tags of their sources, in the places that attention tells.

Shapes: T units of the target, S of the source; see `tags.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from seq2seq.data.vocabularies import Vocabularies
from seq2seq.inference.engine import Engine
from seq2seq.inference.source import Candidates
from seq2seq.inference.tags import Tag, put_tags, unit_weights


def restore_tags(
    engine: Engine,
    vocabularies: Vocabularies,
    taken: Sequence[tuple[str, list[Tag]]],
    found: Sequence[Candidates],
) -> list[Candidates]:
    """Put tags into translations.

    Args:
        engine: tells what looked at what.
        vocabularies: of the source and the target.
        taken: sources without their tags, and these.
        found: the translations of each.
    """
    each = list(zip(taken, found, strict=True))
    pairs = [(text, one.text) for (text, tags), own in each for one in own if tags]
    weights = iter(weights_of_units(engine, vocabularies, pairs))
    return [
        [one.with_text(put_tags(tags, text, one.text, next(weights))) for one in own]
        if tags
        else list(own)
        for (text, tags), own in each
    ]


def weights_of_units(
    engine: Engine, vocabularies: Vocabularies, pairs: Sequence[tuple[str, str]]
) -> list[np.ndarray | None]:
    """For each pair how much its units belong together (T, S); None if it cannot be read."""
    sides = vocabularies.source, vocabularies.target
    ids = [tuple(v.encode([t])[0] for v, t in zip(sides, pair, strict=True)) for pair in pairs]
    limit = engine.max_length
    rows = [i for i, both in enumerate(ids) if all(both) and max(map(len, both)) < limit]
    results: list[np.ndarray | None] = [None] * len(pairs)
    attention = engine.attention([(ids[i][0], ids[i][1]) for i in rows]) if rows else []
    for i, weights_TS in zip(rows, attention, strict=True):
        ends = sides[0].ends(ids[i][0]), sides[1].ends(ids[i][1])
        results[i] = unit_weights(*pairs[i], ends, weights_TS[:-1, :-1])  # no end marks
    return results
