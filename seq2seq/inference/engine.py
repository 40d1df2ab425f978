"""What a translator runs on: token ids in, token ids out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from seq2seq.config import DecodeConfig
from seq2seq.decoding.ensemble import Ensemble
from seq2seq.decoding.forced import forced_log_probs
from seq2seq.decoding.hypothesis import Hypothesis
from seq2seq.decoding.request import Request
from seq2seq.decoding.search import search
from seq2seq.decoding.step import ModelStep, StepModel
from seq2seq.model.translation_model import TranslationModel

Progress = Callable[[int], object] | None
Pair = tuple[Sequence[int], Sequence[int]]  # source and target ids without marks


class Engine(Protocol):
    """Searches and scores. It holds no state between calls, so that threads may share it.

    Attributes:
        max_length: most tokens of a source or a target, end mark included.
    """

    max_length: int

    def search(
        self, requests: Sequence[Request], config: DecodeConfig, progress: Progress = None
    ) -> list[list[Hypothesis]]:
        """Hypotheses for each request, best first; `config.n_best`, or fewer."""
        ...

    def score(self, pairs: Sequence[Pair]) -> list[list[float]]:
        """Log probabilities of the tokens of each target, its end mark last."""
        ...

    def attention(self, pairs: Sequence[Pair]) -> list[np.ndarray]:
        """For each pair how much each target token looked at each source token.

        Returns:
            Weights (T, S), end marks included on both sides; rows sum to 1.
        """
        ...


class TorchEngine:
    """One model of this project, or several as an ensemble.

    Args:
        models: in evaluation mode, on one device, over one vocabulary.
        length_ratio: target tokens per source token, as in the training corpus.
    """

    def __init__(self, models: Sequence[TranslationModel], length_ratio: float = 1.0):
        self.models, self.length_ratio = list(models), length_ratio
        self.max_length = min(model.config.max_length for model in models)

    def search(
        self, requests: Sequence[Request], config: DecodeConfig, progress: Progress = None
    ) -> list[list[Hypothesis]]:
        steps = [ModelStep(model) for model in self.models]
        model: StepModel[Any] = steps[0] if len(steps) == 1 else Ensemble(steps)
        return search(
            model,
            requests,
            config,
            max_length=self.max_length,
            length_ratio=self.length_ratio,
            device=next(self.models[0].parameters()).device,
            progress=progress,
        )

    def score(self, pairs: Sequence[Pair]) -> list[list[float]]:
        return forced_log_probs(self.models, pairs)

    def attention(self, pairs: Sequence[Pair]) -> list[np.ndarray]:
        raise NotImplementedError
