"""Minimum Bayes risk: of samples, the one that is most like all the others (Eikema & Aziz 2020).

Likeness is sentence chrF (Popović 2015) as in sacrebleu: character n-grams of 1 to 6 without
spaces, precision and recall averaged over the orders that both texts have, recall counting twice.

Shapes: D different texts, N different n-grams of one order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from seq2seq.decoding.hypothesis import Hypothesis

ORDERS = 6
BETA = 2


def by_consensus(samples: Sequence[Hypothesis], texts: Sequence[str]) -> list[Hypothesis]:
    """Samples by their expected utility, which becomes their score; best first, each text once.

    Args:
        samples: at least one.
        texts: what they read.
    """
    utilities = expected_utilities(texts)
    different = {text: i for i, text in reversed(list(enumerate(texts)))}  # the first of equals
    ranked = sorted(different.values(), key=lambda i: (-utilities[i], i))
    return [replace(samples[i], score=utilities[i]) for i in ranked]


def expected_utilities(texts: Sequence[str]) -> list[float]:
    """For each text its mean chrF (0 to 100) with all texts as references, itself among them.

    Equal texts count as often as they occur.
    """
    counts = Counter(texts)
    weights_D = np.array(list(counts.values())) / len(texts)
    mean_D = chrf_matrix(list(counts)) @ weights_D
    utilities = dict(zip(counts, mean_D.tolist(), strict=True))
    return [utilities[text] for text in texts]


def chrf_matrix(texts: Sequence[str]) -> np.ndarray:
    """Sentence chrF (D, D): of the text of a row with that of a column as its reference."""
    spaceless = ["".join(text.split()) for text in texts]
    size = len(texts)
    precision_DD, recall_DD, orders_DD = (np.zeros((size, size)) for _ in range(3))
    for order in range(1, ORDERS + 1):
        counts_DN = _ngram_counts(spaceless, order)
        matches_DD = np.stack([np.minimum(counts_DN, row).sum(axis=1) for row in counts_DN])
        total_D = counts_DN.sum(axis=1)
        both_DD = (total_D[:, None] > 0) & (total_D > 0)
        precision_DD += matches_DD / np.maximum(total_D, 1)[:, None]
        recall_DD += matches_DD / np.maximum(total_D, 1)
        orders_DD += both_DD
    precision_DD /= np.maximum(orders_DD, 1)
    recall_DD /= np.maximum(orders_DD, 1)
    weighted_DD = BETA**2 * precision_DD + recall_DD
    both = (1 + BETA**2) * precision_DD * recall_DD
    return 100 * np.divide(both, weighted_DD, out=np.zeros_like(both), where=weighted_DD > 0)


def _ngram_counts(texts: Sequence[str], order: int) -> np.ndarray:
    """How often each text (D) has each n-gram of any of them (N)."""
    grams = [Counter(text[i : i + order] for i in range(len(text) - order + 1)) for text in texts]
    place = {gram: n for n, gram in enumerate(dict.fromkeys(gram for own in grams for gram in own))}
    counts_DN = np.zeros((len(texts), len(place)), dtype=np.int32)
    for d, own in enumerate(grams):
        counts_DN[d, [place[gram] for gram in own]] = list(own.values())
    return counts_DN
