"""What a search returns."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from seq2seq.config import DecodeConfig
from seq2seq.decoding.lengths import normalised


@dataclass(frozen=True)
class Hypothesis:
    """One translation as token ids.

    Attributes:
        tokens: ids without start and end marks.
        log_prob: natural log of its probability under the model, end mark included.
        score: what finished hypotheses are ranked by: `log_prob`, divided by a function of length;
            with `decode.coverage` the penalty is in it.
        finished: False if the output limit cut it off before an end mark.
        token_log_probs: of each token, and of the end mark if there is one; empty where an engine
            does not tell them.
    """

    tokens: list[int]
    log_prob: float
    score: float
    finished: bool
    token_log_probs: list[float] = field(default_factory=list)

    @classmethod
    def of(
        cls,
        tokens: Sequence[int],
        log_probs: Sequence[float],
        config: DecodeConfig,
        finished: bool,
    ) -> Hypothesis:
        """From the log probabilities of its tokens, that of the end mark among them.

        An impossible token is where rules left nothing to say: the output is cut off before it.
        """
        if -math.inf in log_probs:
            cut = log_probs.index(-math.inf)
            tokens, log_probs, finished = tokens[:cut], log_probs[:cut], False
        log_prob = float(sum(log_probs))
        score = normalised(log_prob, max(1, len(log_probs)), config)
        return cls(list(tokens), log_prob, score, finished, list(log_probs))
