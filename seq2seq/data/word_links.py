"""Links between words of a sentence pair that translate each other, learned from a corpus.

IBM model 1 (Brown et al. 1993) runs in both directions over the content words of a sample. Words of
a pair are linked if each is the other's likeliest translation there. `inference/head_selection.py`
calls `translation_table` for the tokens of a few hundred sentences.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

ROUNDS = 5
FREQUENT = 100  # most frequent words of each side, which say too little to be linked
LINKS = 3_000_000  # most possible links in a sample; counting them takes about 0.3 GB
LIKELY = 0.02  # words are linked if the product of both probabilities is above this
# Whole words: neither the "couldn" of "couldn't" nor the "hui" of "aujourd'hui".
_WORD = re.compile(
    r"(?:aujourd['’]hui|quelqu['’]un|(?<![\w-])(?=([^\W\d_]{2,}(?:-[^\W\d_]+)*))\1)(?![\w-]|['’]\w)",
    re.IGNORECASE,
)
Span = tuple[int, int]  # first character, and first character after it


@dataclass(frozen=True)
class Phrase:
    """Some words of the source and their translation, as spans of characters."""

    source: Span
    target: Span


class WordLinks:
    """Translations of content words, learned from pairs.

    Args:
        pairs: parallel sentences; as many as `LINKS` allows are read.
    """

    def __init__(self, pairs: Iterable[tuple[str, str]]) -> None:
        texts = [(_words(source), _words(target)) for source, target in _sample(pairs)]
        self._numbers = [_content([pair[side] for pair in texts]) for side in (0, 1)]
        sources, targets = (
            [[numbers[w] for w in pair[side] if w in numbers] for pair in texts]
            for side, numbers in enumerate(self._numbers)
        )
        forward = translation_table(sources, targets)
        backward = translation_table(targets, sources)
        both = {(i, j): p * backward.get((j, i), 0) for (i, j), p in forward.items()}
        self._likely = {words: p for words, p in both.items() if p > LIKELY}

    def links(self, source: Sequence[str], target: Sequence[str]) -> list[tuple[int, int]]:
        """Return pairs of positions (s, t) of words that translate each other."""
        left, right = (
            [numbers.get(word.lower(), -1) for word in side]
            for numbers, side in zip(self._numbers, (source, target), strict=True)
        )
        scores = {
            (s, t): self._likely[i, j] * math.exp(-2 * abs(s / len(left) - t / len(right)))
            for s, i in enumerate(left)
            for t, j in enumerate(right)
            if (i, j) in self._likely
        }
        best: dict[tuple[str, int], tuple[float, tuple[int, int]]] = {}
        for link, score in scores.items():
            for end in (("s", link[0]), ("t", link[1])):
                best[end] = max(best.get(end, (0.0, link)), (score, link))
        return [link for link in scores if best["s", link[0]][1] == best["t", link[1]][1] == link]

    def phrases(self, source: str, target: str, longest: int = 3) -> list[Phrase]:
        """Find neighbouring words on both sides that translate each other and nothing else.

        Args:
            source, target: a pair.
            longest: most source words of a phrase; the target may have one more.
        """
        left, right = list(_WORD.finditer(source)), list(_WORD.finditer(target))
        links = self.links([w[0] for w in left], [w[0] for w in right])
        places = sorted({s for s, _ in links})
        found = []
        for first in places:
            for last in (place for place in places if first <= place < first + longest):
                inside = [t for s, t in links if first <= s <= last]
                start, end = min(inside), max(inside)
                other = any(start <= t <= end and not first <= s <= last for s, t in links)
                loose = end - start - len(inside) + 1, last - first - len(inside) + 1
                if other or end - start > longest or max(loose) > 1:
                    continue
                phrase = Phrase(
                    (left[first].start(), left[last].end()),
                    (right[start].start(), right[end].end()),
                )
                if _is_together(source, phrase.source) and _is_together(target, phrase.target):
                    found.append(phrase)
        return found


def _is_together(text: str, span: Span) -> bool:
    return not re.search(r"[^\w\s'’-]|\d", text[slice(*span)])


def _sample(pairs: Iterable[tuple[str, str]]) -> Iterable[tuple[str, str]]:
    possible = 0
    for source, target in pairs:
        # About half of the words are content words.
        possible += (source.count(" ") + 1) * (target.count(" ") + 1) // 3
        if possible > LINKS:
            return
        yield source, target


def _words(text: str) -> list[str]:
    return [match[0] for match in _WORD.finditer(text.lower())]


def _content(texts: Sequence[Sequence[str]]) -> dict[str, int]:
    """Number the words that are neither among the most frequent nor seen only once."""
    counts = Counter(word for text in texts for word in text)
    words = [word for word, count in counts.most_common()[FREQUENT:] if count > 1]
    return {word: number for number, word in enumerate(words)}


def translation_table(
    sources: Sequence[Sequence[int]],
    targets: Sequence[Sequence[int]],
    tension: float = 0.0,
    least: float = LIKELY,
) -> dict[tuple[int, int], float]:
    """Estimate p(target word | source word) of pairs (source, target) by expectation maximisation.

    Args:
        sources, targets: pairs of sentences, each a list of word numbers.
        tension: how strongly equal relative positions are preferred (`nearness`).
        least: probabilities up to this are left out.
    """
    keys, sizes, priors = [], [], []
    width = 1 + max((word for target in targets for word in target), default=0)
    for source, target in zip(sources, targets, strict=True):
        if source and target:
            row = np.array(source, np.int64) * width
            keys.append((np.array(target, np.int64)[:, None] + row).ravel())
            sizes += [len(source)] * len(target)  # each target word chooses one source word
            if tension:
                priors.append(nearness(len(target), len(source), tension).ravel())
    if not keys:
        return {}
    near = np.concatenate(priors) if tension else np.ones(1)
    kinds, places = np.unique(np.concatenate(keys), return_inverse=True)
    del keys
    starts = np.cumsum([0, *sizes[:-1]])
    words = kinds // width
    probs = np.ones(len(kinds))
    for _ in range(ROUNDS):
        shares = probs[places] * near
        shares /= np.repeat(np.add.reduceat(shares, starts), sizes)
        counts = np.bincount(places, shares, len(kinds))
        probs = counts / np.bincount(words, counts)[words]
    kept = probs > least
    pairs = zip(words[kept].tolist(), (kinds[kept] % width).tolist(), strict=True)
    return dict(zip(pairs, probs[kept].tolist(), strict=True))


def nearness(rows: int, columns: int, tension: float) -> np.ndarray:
    """Return exp(-tension * distance) of relative positions, (rows, columns)."""
    row, column = np.arange(rows) / rows, np.arange(columns) / columns
    return np.asarray(np.exp(-tension * np.abs(row[:, None] - column)))
