"""The coverage penalty: against translations that leave out parts of their source."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from seq2seq.config import DecodeConfig
from seq2seq.decoding.hypothesis import Hypothesis


def coverage_penalty(weights_TS: np.ndarray) -> float:
    """Sum over source tokens of log(min(attention they got, 1)) (Wu et al. 2016, eq. 14).

    It is 0 if each token got as much as one target token gives, and below else.

    Args:
        weights_TS: attention of T target tokens to S source tokens, end marks included. The end
            mark of the source has nothing to be translated, and does not count.
    """
    got_S = weights_TS.sum(axis=0, dtype=np.float64)[:-1]
    return float(np.log(got_S.clip(np.finfo(np.float64).tiny, 1.0)).sum())


def ranked_by_coverage(
    hypotheses: Sequence[Hypothesis], weights: Sequence[np.ndarray], config: DecodeConfig
) -> list[Hypothesis]:
    """The best of a sentence, whose scores have `config.coverage` times the penalty added.

    Args:
        hypotheses: all that a search found, so that an early stop can have missed none.
        weights: attention (T, S) of each.
        config: the weight of the penalty, and how many are wanted.
    """
    scored = [
        replace(one, score=one.score + config.coverage * coverage_penalty(weights_TS))
        for one, weights_TS in zip(hypotheses, weights, strict=True)
    ]
    return sorted(scored, key=lambda one: -one.score)[: config.n_best]
