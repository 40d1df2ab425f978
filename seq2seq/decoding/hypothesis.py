"""What a search returns, and how length enters its score.

Shapes: E outputs, L tokens.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from seq2seq.config import DecodeConfig
from seq2seq.data.tokenizer import EOS


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
        cls, output: Sequence[int], log_probs: Sequence[float], config: DecodeConfig
    ) -> Hypothesis:
        """From the tokens that a search wrote; what follows an end mark does not count.

        An impossible token is where constraints left nothing to say: the output is cut off there.
        """
        if -math.inf in log_probs:
            output = output[: log_probs.index(-math.inf)]
        finished = EOS in output
        words = output[: output.index(EOS)] if finished else output
        log_probs = log_probs[: len(words) + finished]
        log_prob = float(sum(log_probs))
        score = normalised(log_prob, max(1, len(log_probs)), config)
        return cls(list(words), log_prob, score, finished, list(log_probs))


class Finished:
    """Outputs that a search has done with; on its device until all are read at once.

    Args:
        config: how they are scored.
    """

    def __init__(self, config: DecodeConfig):
        self._config = config
        self._parts: list[tuple[Tensor, Tensor, Tensor]] = []

    def add(self, owner_E: Tensor, tokens_EL: Tensor, log_probs_EL: Tensor) -> None:
        """Outputs, with their end marks, and the number of whom each belongs to."""
        self._parts.append((owner_E, tokens_EL, log_probs_EL))

    def of_owners(self, count: int) -> list[list[Hypothesis]]:
        """The hypotheses of each owner, in the order in which they were added."""
        found: list[list[Hypothesis]] = [[] for _ in range(count)]
        for part in self._parts:
            for owner, tokens, log_probs in zip(*(x.tolist() for x in part), strict=True):
                found[owner].append(Hypothesis.of(tokens, log_probs, self._config))
        return found


def rows_of(which_B: Tensor, width: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Places of these sentences of a batch, and of their hypotheses, as indices on a device."""
    places_B = which_B.nonzero()[:, 0]
    rows_BN = places_B[:, None] * width + torch.arange(width)
    return places_B.to(device), rows_BN.flatten().to(device)


def normalised(log_prob: float, length: int, config: DecodeConfig) -> float:
    """Score of a hypothesis of `length` tokens, end mark included."""
    return log_prob / length_divisor(length, config)


def length_divisor(length: int, config: DecodeConfig) -> float:
    """What a log probability is divided by; it is positive, and never falls as length grows.

    `none` ranks by probability, which favours short outputs; `average` with an exponent of 1 by
    the mean per token; `gnmt` divides by ((5 + length) / 6) ** exponent (Wu et al. 2016, eq. 14).
    """
    if config.length_norm == "none":
        return 1.0
    base = length if config.length_norm == "average" else (5 + length) / 6
    return math.pow(base, config.length_penalty)
