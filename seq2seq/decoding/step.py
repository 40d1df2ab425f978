"""The interface that a search needs: of a model, or of several models as one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from seq2seq.data.tokenizer import PAD
from seq2seq.model.translation_model import DecodeState, TranslationModel


class Searchable(Protocol):
    """Anything that a search can use; it need not be a network."""

    def start(self, source_BS: Tensor) -> DecodeState:
        """Read B sources, with end marks and padding; begin an empty hypothesis for each."""
        ...

    def step(self, tokens_R: Tensor, state: Any) -> Tensor:
        """Append a token to each of R hypotheses; return log probabilities (R, V) of the next.

        The caller may overwrite them.
        """
        ...


class ModelStep:
    """A translation model of any architecture, with the interface of a search."""

    def __init__(self, model: TranslationModel):
        self.model = model

    def start(self, source_BS: Tensor) -> DecodeState:
        return self.model.start(source_BS, source_BS != PAD)

    def step(self, tokens_R: Tensor, state: Any) -> Tensor:
        return self.log_probs(self.hidden(tokens_R, state))

    def hidden(self, tokens_R: Tensor, state: Any) -> Tensor:
        """Append a token to each hypothesis; return the decoder's hidden states (R, D)."""
        return self.model.decode_step(tokens_R[:, None], state)[:, -1]

    def log_probs(self, hidden_RD: Tensor) -> Tensor:
        """Return log probabilities (R, V) of the next token."""
        logits_RV = self.model.project(hidden_RD)
        # `apply_constraints` forbids padding and start marks. Their small probability stays in the
        # sum, so that scores equal those of training.
        return torch.log_softmax(logits_RV.float(), dim=-1)


class Ensemble:
    """Several models over one vocabulary, searched as one: the mean of their probabilities.

    Args:
        members: at least one.
    """

    def __init__(self, members: Sequence[Searchable]):
        self.members = members

    def start(self, source_BS: Tensor) -> EnsembleState:
        return EnsembleState(member.start(source_BS) for member in self.members)

    def step(self, tokens_R: Tensor, state: EnsembleState) -> Tensor:
        """Return the log of the mean probability (R, V) of each next token."""
        each = zip(self.members, state, strict=True)
        log_probs_NRV = torch.stack([member.step(tokens_R, own) for member, own in each])
        return log_probs_NRV.logsumexp(dim=0) - math.log(len(self.members))


class EnsembleState(list[DecodeState]):
    """The states of all members."""

    def reorder(self, rows: Tensor) -> None:
        for state in self:
            state.reorder(rows)

    def keep(self, sentences: Tensor, rows: Tensor) -> None:
        for state in self:
            state.keep(sentences, rows)
