"""How long an output may be, and how length enters its score."""

from __future__ import annotations

import math

from seq2seq.config import DecodeConfig
from seq2seq.data.tokenizer import BOS, EOS, PAD


def output_limit(source_length: int, config: DecodeConfig, model_limit: int) -> int:
    """Most output tokens, end mark included, for a source of so many tokens."""
    return min(math.ceil(config.max_ratio * source_length) + config.max_extra, model_limit)


def banned_tokens(length: int, config: DecodeConfig) -> list[int]:
    """Tokens that cannot follow an output of so many tokens: marks that no target contains
    inside, and the end mark while the output is too short."""
    return [PAD, BOS, EOS] if length < config.min_length else [PAD, BOS]


def normalised(log_prob: float, length: int, penalty: float) -> float:
    """Score of a hypothesis of `length` tokens, end mark included.

    `penalty` 0 ranks by probability, which favours short outputs; 1 by the mean per token.
    """
    return log_prob / math.pow(length, penalty)


def best_possible(log_prob: float, limit: int, penalty: float) -> float:
    """Upper bound on the score of anything that continues a hypothesis.

    More tokens can only lower `log_prob` (<= 0), and dividing it by the largest length allowed
    brings it nearest to zero; so no continuation of at most `limit` tokens scores higher.
    """
    return normalised(log_prob, limit, penalty)
