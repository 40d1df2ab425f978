"""What a search returns."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Hypothesis:
    """One translation as token ids.

    Attributes:
        tokens: ids without start and end marks.
        log_prob: natural log of its probability under the model, end mark included.
        score: what the search ranks by: `log_prob / length ** length_penalty`.
        finished: False if the output limit cut it off before an end mark.
    """

    tokens: list[int]
    log_prob: float
    score: float
    finished: bool
