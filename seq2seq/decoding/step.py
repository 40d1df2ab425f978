"""The protocol between a search and a model: start from sources, then step token by token."""

from __future__ import annotations

from typing import Protocol, TypeVar

import torch
from torch import Tensor

from seq2seq.data.tokenizer import PAD
from seq2seq.model.cache import DecoderCache
from seq2seq.model.transformer import Transformer


class DecodeState(Protocol):
    """What a model remembers of the hypotheses that are being extended."""

    def reorder(self, rows: Tensor) -> None:
        """Hypothesis i becomes a copy of the old rows[i] (R,)."""

    def select(self, sentences: Tensor, rows: Tensor) -> None:
        """Keep these sentences (B',) and these hypotheses (R',) only."""


State = TypeVar("State", bound=DecodeState)


class StepModel(Protocol[State]):
    """Anything that can be searched: it need not be a network."""

    def start(self, source_BS: Tensor) -> State:
        """Read B sources, with end marks and padding; one empty hypothesis for each."""
        ...

    def step(self, tokens_R: Tensor, state: State) -> Tensor:
        """Append a token to each of R hypotheses; log probabilities (R, V) of the next one."""
        ...


class TransformerStep:
    """A transformer as a step model."""

    def __init__(self, model: Transformer):
        self.model = model

    def start(self, source_BS: Tensor) -> DecoderCache:
        real = source_BS != PAD
        return self.model.start_cache(self.model.encode(source_BS, real), real)

    def step(self, tokens_R: Tensor, state: DecoderCache) -> Tensor:
        hidden_R1D = self.model.decode_step(tokens_R[:, None], state)
        logits_RV = self.model.project(hidden_R1D[:, -1])
        # Padding and start marks are inputs, never outputs; leaving their little probability in
        # the sum keeps scores equal to those of training.
        return torch.log_softmax(logits_RV.float(), dim=-1)
