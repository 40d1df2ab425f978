"""Keys that nearly equal pairs share and other pairs do not: MinHash of their pieces, in bands.

The probability that two texts have the same least hash is their Jaccard similarity s, the share of
their pieces that both have (Broder 1997). A key combines ROWS such hashes, and one equal key out of
BANDS is enough. So pairs are found with probability 1 - (1 - s ** ROWS) ** BANDS, which is 3 % at
s = 0.5, 13 % at 0.6, 38 % at 0.7, 77 % at 0.8 and 99 % at 0.9.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from seq2seq.data.cleaning import letters_of

PIECE = 8  # bytes of letters and digits in a row
BANDS, ROWS = 8, 8
PAIRS_AT_ONCE = 512  # few enough for the processor's cache


def near_keys(sources: Sequence[str], targets: Sequence[str]) -> np.ndarray:
    """Return the (n, BANDS) keys of n pairs, from both sides' letters and digits, ignoring case.

    Pairs with equal letters and digits share all keys. Keys are the same on every machine.
    """
    both = zip(sources, targets, strict=True)
    texts = [b"\0".join(letters_of(side) or side.encode() for side in pair) for pair in both]
    groups = (texts[first : first + PAIRS_AT_ONCE] for first in range(0, len(texts), PAIRS_AT_ONCE))
    return np.concatenate([np.zeros((0, BANDS), np.uint64), *map(_keys, groups)])


def _keys(texts: Sequence[bytes]) -> np.ndarray:
    padded = [text.ljust(PIECE, b"\0") for text in texts]
    data = b"".join(padded) + bytes(PIECE)
    pieces = np.ndarray(len(data) - PIECE + 1, "<u8", data, strides=(1,))
    hashes = (_mixed(pieces) >> np.uint64(32)).astype(np.uint32)
    ends = np.cumsum([len(text) for text in padded])
    starts = np.concatenate([[0], ends[:-1]])
    # In turn: the pieces of a text, and the pieces that reach into the next one and do not count.
    edges = np.stack([starts, ends - PIECE + 1], axis=1).ravel()
    keys = np.tile(np.arange(BANDS, dtype=np.uint64), (len(texts), 1))
    for band, factor, shift in _hash_functions():
        least = np.minimum.reduceat(hashes * factor + shift, edges)[::2]
        keys[:, band] = _mixed(keys[:, band] ^ least)
    return keys


def _hash_functions() -> Iterator[tuple[int, np.uint32, np.uint32]]:
    """Yield, for each row of each band, the band, and a factor and a shift that vary a hash."""
    drawn = _mixed(np.arange(1, 2 * BANDS * ROWS + 1, dtype=np.uint64)).astype(np.uint32)
    for row, (factor, shift) in enumerate(drawn.reshape(-1, 2)):
        yield row % BANDS, factor | np.uint32(1), shift


def _mixed(numbers: np.ndarray) -> np.ndarray:
    """Map numbers one to one to numbers that look random."""
    mixed = numbers * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(32))) * np.uint64(0xD6E8FEB86659FD93)
    return mixed ^ (mixed >> np.uint64(32))
