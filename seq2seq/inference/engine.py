"""What a translator runs on: token ids in, token ids out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from seq2seq.config import DecodeConfig
from seq2seq.decoding.hypothesis import Hypothesis
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
