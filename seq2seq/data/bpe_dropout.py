"""BPE-dropout: the same word in other subwords each time it is drawn.

After Provilkov, Emelianenko and Voita (2020), "BPE-Dropout: Simple and Effective Subword
Regularization", section 3. The dropout of the `tokenizers` library cannot be seeded.
"""

from __future__ import annotations

import json
import random
from functools import lru_cache
from itertools import pairwise

import tokenizers


def byte_characters() -> list[str]:
    """Return the character for each byte in byte-level vocabularies (Radford et al. 2019).

    Visible bytes of Latin-1 stand for themselves; the others get code points from 256 on.
    """
    visible = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    hidden = [byte for byte in range(256) if byte not in visible]
    return [chr(b) if b in visible else chr(256 + hidden.index(b)) for b in range(256)]


Ids = tuple[int, ...]
Merge = tuple[int, int, int]  # rank in the order of learning, id of the result, position

CACHED_WAYS = 2**16  # words whose way (`_find_way`) is cached, about 50 MB
LONGEST = 40  # characters of a word whose way is cached: its size grows with their square


class BpeDropout:
    """A byte-pair encoder that leaves out merges at random.

    Args:
        backend: a byte-level BPE tokenizer of the library `tokenizers`.
    """

    def __init__(self, backend: tokenizers.Tokenizer):
        model = json.loads(backend.to_str())["model"]
        ids = model["vocab"]
        self._byte_ids = [ids[character] for character in byte_characters()]
        self._merges = {
            (ids[left], ids[right]): (rank, ids[left + right])
            for rank, (left, right) in enumerate(model["merges"])
        }
        self._way = lru_cache(CACHED_WAYS)(self._find_way)

    def segment(self, word: str, dropout: float, rng: random.Random) -> Ids:
        """Return the ids of a word (algorithm 1 of the paper).

        At each step, every possible merge is dropped with probability `dropout`, and the earliest
        learned of the remaining merges is applied. The word is done when no merge remains.
        """
        first = 0  # index of the first merge that is not dropped yet
        if len(word) > LONGEST:
            ids = self._bytes(word)
        else:
            way = self._way(word)  # most occurrences of a word follow it to the end
            last, kept = len(way) - 1, 0
            while kept < last and rng.random() >= dropout:
                kept += 1
            ids = way[kept]
            if kept == last:
                return ids
            first = 1  # the best merge of these ids was dropped
        while True:
            # Once a merge is kept, it no longer matters whether later learned ones are dropped.
            for merge in self._possible(ids)[first:]:
                if rng.random() >= dropout:
                    ids, first = _merged(ids, merge), 0
                    break
            else:
                return ids

    def _find_way(self, word: str) -> list[Ids]:
        """Return the ids after each merge, from single bytes on, if no merge is dropped."""
        way = [self._bytes(word)]
        while possible := self._possible(way[-1]):
            way.append(_merged(way[-1], possible[0]))
        return way

    def _bytes(self, word: str) -> Ids:
        return tuple([self._byte_ids[byte] for byte in word.encode()])

    def _possible(self, ids: Ids) -> list[Merge]:
        """Return the possible merges of neighbouring ids, the earliest learned first."""
        return sorted(
            (*self._merges[pair], place)
            for place, pair in enumerate(pairwise(ids))
            if pair in self._merges
        )


def _merged(ids: Ids, merge: Merge) -> Ids:
    _, new, place = merge
    return (*ids[:place], new, *ids[place + 2 :])
