"""The engine that runs the models of this project themselves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from seq2seq.config import DecodeConfig
from seq2seq.decoding.attention_head import AttentionHead
from seq2seq.decoding.cuda_graph import graph_step
from seq2seq.decoding.forced import forced_attention, forced_log_probs
from seq2seq.decoding.hypothesis import Hypothesis
from seq2seq.decoding.request import IdPair, Request
from seq2seq.decoding.search import search
from seq2seq.decoding.step import Ensemble, ModelStep, StepModel
from seq2seq.inference.engine import Progress
from seq2seq.model.translation_model import TranslationModel


class TorchEngine:
    """One model of this project, or several as an ensemble.

    Args:
        models: in evaluation mode, on one device, over one vocabulary.
        length_ratio: target tokens per source token, as in the training corpus.
        heads: for each model what aligns best; none = the defaults of `AttentionHead`.
        cuda_graphs: the decoder is replayed as CUDA graphs, faster where batches are small.

    Raises:
        UserError: CUDA graphs are not for these models.
    """

    def __init__(
        self,
        models: Sequence[TranslationModel],
        length_ratio: float = 1.0,
        heads: Sequence[AttentionHead] = (),
        cuda_graphs: bool = False,
    ):
        self.models, self.length_ratio = list(models), length_ratio
        self.heads = list(heads) or [AttentionHead() for _ in models]
        self.max_length = min(model.config.max_length for model in models)
        steps = [graph_step(model) if cuda_graphs else ModelStep(model) for model in models]
        self._step: StepModel[Any] = steps[0] if len(steps) == 1 else Ensemble(steps)
        self._device = next(models[0].parameters()).device
        # Asked for once: while a search runs in several threads, each has but one.
        self._workers = torch.get_num_threads() if self._device.type == "cpu" else 1

    def search(
        self, requests: Sequence[Request], config: DecodeConfig, progress: Progress = None
    ) -> list[list[Hypothesis]]:
        return search(
            self._step,
            requests,
            config,
            max_length=self.max_length,
            length_ratio=self.length_ratio,
            device=self._device,
            progress=progress,
            workers=self._workers,
        )

    def score(self, pairs: Sequence[IdPair]) -> list[list[float]]:
        return forced_log_probs(self.models, pairs)

    def attention(self, pairs: Sequence[IdPair]) -> list[np.ndarray]:
        each = zip(self.models, self.heads, strict=True)
        of_models = [forced_attention(model, pairs, head) for model, head in each]
        return [np.mean(weights, axis=0) for weights in zip(*of_models, strict=True)]
