"""The figures of the preparation report: what was read, kept, dropped and found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from seq2seq.data.checks import Losses
from seq2seq.data.cleaning import Cleaner
from seq2seq.data.corpus import Pair
from seq2seq.data.report import RARE
from seq2seq.data.shards import Shards, read_facts
from seq2seq.data.steps import EXAMPLES
from seq2seq.data.vocabularies import Vocabularies

POINTS = 200  # points of a curve
CHUNK = 2**20  # pairs that are counted at once
LONGEST_BIN = 512  # last bin of the histograms of lengths: this many tokens or more


def cleaning_figures(losses: Losses, repeated: Path | None) -> dict[str, Any]:
    """Count pairs read, kept and dropped; dropped pairs by reason, in filter order, with examples.

    Args:
        losses: of all sources.
        repeated: the file of duplicates; None = duplicates are kept.
    """
    filters, read = losses.cleaning.filters, sum(losses.read)
    dropped = Counter(dict.fromkeys(filters, 0))
    for own in losses.dropped:
        dropped.update(own)
    examples = {
        name: list(chain.from_iterable(own.get(name, ()) for own in losses.examples))[:EXAMPLES]
        for name in filters
    }
    if repeated is not None:
        compared = read_facts(repeated)
        dropped.update(compared["dropped"])
        examples.update(compared["examples"])
    return {
        "read": read,
        "kept": read - dropped.total(),
        "dropped": dict(dropped),
        "examples": examples,
    }


def overlap(
    leaked: set[int], evaluation: Mapping[str, Sequence[Pair]], cleaner: Cleaner
) -> list[dict[str, Any]]:
    """Count the pairs of each evaluation split because of which training pairs were dropped.

    Args:
        leaked: keys that the dropped pairs share with evaluation text.
        evaluation: pairs of each split.
        cleaner: makes the keys of these pairs.
    """
    return [
        {
            "split": split,
            "pairs": len(pairs),
            "in_training": sum(
                not leaked.isdisjoint(cleaner.evidence(*cleaner.normalised(*pair)))
                for pair in pairs
            ),
        }
        for split, pairs in evaluation.items()
    ]


def token_figures(shards: Shards) -> dict[str, Any]:
    """Count words, characters and tokens of both sides; make histograms of lengths and ratios."""
    facts = [read_facts(path) for path in shards.paths]
    lengths = np.zeros((2, LONGEST_BIN + 1), np.int64)
    ratios, tokens = np.zeros(41, np.int64), np.zeros(2, np.int64)
    for first in range(0, len(shards), CHUNK):
        own = shards.lengths[first : first + CHUNK].astype(np.int64) - 1  # without the end mark
        ratio = np.log2(np.maximum(own[:, 1], 1) / np.maximum(own[:, 0], 1))
        bins = np.clip(np.rint(ratio * 10), -20, 20).astype(np.int64) + 20
        ratios += np.bincount(bins, minlength=41)
        tokens += own.sum(axis=0)
        for histogram, side in zip(lengths, own.T, strict=True):
            histogram += np.bincount(np.minimum(side, LONGEST_BIN), minlength=LONGEST_BIN + 1)
    return {
        "words": np.sum([part["words"] for part in facts], axis=0).tolist(),
        "characters": np.sum([part["characters"] for part in facts], axis=0).tolist(),
        "tokens": tokens.tolist(),
        # Up to one bin after the longest, so that the last bin is never "or more" by accident.
        "lengths": [own[: own.nonzero()[0].max(initial=0) + 2].tolist() for own in lengths],
        "ratios": ratios.tolist(),
    }


def vocabulary_figures(shards: Shards, vocabularies: Vocabularies) -> list[dict[str, Any]]:
    """Count how often the tokens of each vocabulary are used."""
    source, target = (np.zeros(size, np.int64) for size in vocabularies.sizes)
    for side, counts in enumerate((source, target)):
        for ids in shards.tokens(side):
            counts += np.bincount(ids, minlength=len(counts))
    if vocabularies.joint:
        return [_use("joint", source + target)]
    return [_use("source", source), _use("target", target)]


def _use(name: str, counts: np.ndarray) -> dict[str, Any]:
    descending = np.sort(counts)[::-1]
    used = int((counts > 0).sum())
    ranks = np.unique(np.geomspace(1, max(used, 1), POINTS).round().astype(np.int64))
    return {
        "name": name,
        "size": len(counts),
        "used": used,
        "rare": int((counts < RARE).sum()),
        "counts": [[int(rank), int(descending[rank - 1])] for rank in ranks],
    }
