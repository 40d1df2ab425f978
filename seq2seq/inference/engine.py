"""What a translator runs on: token ids in, token ids out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Protocol

import numpy as np

from seq2seq.config import DecodeConfig
from seq2seq.decoding.hypothesis import Hypothesis, ranked_by_coverage
from seq2seq.decoding.request import IdPair, Request

Progress = Callable[[int], object] | None


class Engine(Protocol):
    """Searches and scores. It holds no state between calls, so that threads may share it.

    Attributes:
        max_length: most tokens of a source or a target, end mark included.
    """

    max_length: int

    def search(
        self, requests: Sequence[Request], config: DecodeConfig, progress: Progress = None
    ) -> list[list[Hypothesis]]:
        """Hypotheses for each request, best first; those beyond `config.n_best` came for free."""
        ...

    def score(self, pairs: Sequence[IdPair]) -> list[list[float]]:
        """Log probabilities of the tokens of each target, its end mark last."""
        ...

    def attention(self, pairs: Sequence[IdPair]) -> list[np.ndarray]:
        """For each pair how much each target token looked at each source token.

        Returns:
            Weights (T, S), end marks included on both sides; rows sum to 1.
        """
        ...


def ranked_by_cover(
    engine: Engine,
    requests: Sequence[Request],
    found: list[list[Hypothesis]],
    config: DecodeConfig,
) -> list[list[Hypothesis]]:
    """All hypotheses of each request, ranked again by what their attention covers."""
    room = engine.max_length - 1  # what the limit cut off has no end mark, but attention wants it
    each = zip(requests, found, strict=True)
    pairs = [(request.source, one.tokens[:room]) for request, group in each for one in group]
    weights = iter(engine.attention(pairs))
    return [
        ranked_by_coverage(group, list(islice(weights, len(group))), config) for group in found
    ]
