"""How long an output may be, and how length enters its score."""

from __future__ import annotations

import math

from seq2seq.config import DecodeConfig


def output_limits(
    source_length: int, config: DecodeConfig, model_limit: int, ratio: float = 1.0
) -> tuple[int, int]:
    """Fewest output tokens before the end mark, and most with it, for a source.

    Args:
        source_length: its tokens, end mark included.
        config: factors of the length that is to be expected.
        model_limit: most tokens of the model.
        ratio: target tokens per source token, as in the training corpus.
    """
    expected = ratio * source_length
    most = min(math.ceil(config.max_ratio * expected) + config.max_extra, model_limit)
    least = max(config.min_length, math.floor(config.min_ratio * expected))
    return min(least, most - 1), most


def normalised(log_prob: float, length: int, config: DecodeConfig) -> float:
    """Score of a hypothesis of `length` tokens, end mark included.

    `none` ranks by probability, which favours short outputs; `average` with an exponent of 1 by
    the mean per token; `gnmt` divides by ((5 + length) / 6) ** exponent (Wu et al. 2016, eq. 14).
    """
    if config.length_norm == "none":
        return log_prob
    base = length if config.length_norm == "average" else (5 + length) / 6
    return float(log_prob / math.pow(base, config.length_penalty))


def best_possible(log_prob: float, limit: int, config: DecodeConfig) -> float:
    """Upper bound on the score of anything that continues a hypothesis.

    More tokens can only lower `log_prob` (<= 0), and each divisor grows with length, so that the
    one of the largest length allowed brings it nearest to zero: no continuation of at most `limit`
    tokens scores higher.
    """
    return normalised(log_prob, limit, config)
