"""The second step of preparation: which pairs stand in the corpus more than once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from seq2seq.data.parts import read_keys

SHARE = 2**24  # keys that are compared at once; 1 GB of memory


def repeated_rows(parts: Sequence[Path], share: int = SHARE) -> list[np.ndarray]:
    """For each part, the rows whose pair stood before, in it or in an earlier part.

    Equal pairs have equal keys (of 64 bits: among 40 million different pairs, the chance that
    any two share one is 0.004 %). Keys are compared in shares by their remainder, so that memory
    does not grow with the corpus.
    """
    if not parts:
        return []
    counts = [len(read_keys(path)) for path in parts]
    shares = -(-sum(counts) // share) or 1
    found: list[list[np.ndarray]] = [[] for _ in parts]
    for remainder in range(shares):
        for part, rows in _repeated(parts, shares, remainder):
            found[part].append(rows)
    return [np.sort(np.concatenate(rows)) if rows else np.zeros(0, np.int64) for rows in found]


def _repeated(
    parts: Sequence[Path], shares: int, remainder: int
) -> Iterator[tuple[int, np.ndarray]]:
    rows, keys = [], []
    for path in parts:
        part_keys = read_keys(path)
        rows.append(np.flatnonzero(part_keys % np.uint64(shares) == remainder))
        keys.append(part_keys[rows[-1]])
    everything = np.concatenate(keys)
    repeated = np.ones(len(everything), bool)
    repeated[np.unique(everything, return_index=True)[1]] = False  # the first of its kind
    ends = np.cumsum([len(part_rows) for part_rows in rows])
    for part, (part_rows, mask) in enumerate(zip(rows, np.split(repeated, ends[:-1]), strict=True)):
        yield part, part_rows[mask]
