"""The result of a search, and the score that ranks it: probability and length.

This file does not import torch, because engines without torch make hypotheses, too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from seq2seq.config import DecodeConfig
from seq2seq.data.tokenizer import EOS


@dataclass(frozen=True)
class Hypothesis:
    """One translation as token ids.

    Attributes:
        tokens: ids without start and end marks.
        log_prob: natural log of its probability under the model, end mark included.
        score: ranks finished hypotheses: `log_prob`, divided by a function of the length.
        finished: False if the output limit cut it off before an end mark.
        token_log_probs: log probability of each token, and of the end mark if there is one; empty
            if an engine does not report them.
    """

    tokens: list[int]
    log_prob: float
    score: float
    finished: bool
    token_log_probs: list[float] = field(default_factory=list)

    @classmethod
    def of(
        cls, output: Sequence[int], log_probs: Sequence[float], config: DecodeConfig
    ) -> Hypothesis:
        """Make a hypothesis of the tokens that a search wrote, up to the first end mark.

        If constraints forbade every token, the search wrote an impossible one: the output is cut
        off there.
        """
        if -math.inf in log_probs:
            output = output[: log_probs.index(-math.inf)]
        finished = EOS in output
        words = output[: output.index(EOS)] if finished else output
        log_probs = log_probs[: len(words) + finished]
        log_prob = float(sum(log_probs))
        score = log_prob / length_divisor(len(log_probs), config)
        return cls(list(words), log_prob, score, finished, list(log_probs))


def length_divisor(length: int, config: DecodeConfig) -> float:
    """Return the number that divides the log probability of a hypothesis.

    The number is positive, and never falls as the length in tokens, end mark included, grows.

    `none` ranks by probability, which favours short outputs; `average` with an exponent of 1 by
    the mean per token; `gnmt` divides by ((5 + length) / 6) ** exponent (Wu et al. 2016, eq. 14).
    """
    if config.length_norm == "none":
        return 1.0
    length = max(1, length)
    base = length if config.length_norm == "average" else (5 + length) / 6
    return math.pow(base, config.length_penalty)
