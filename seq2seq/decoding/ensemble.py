"""Several models that are searched as one: the mean of their probabilities."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from seq2seq.decoding.step import StepModel


class EnsembleState:
    """The states of all members."""

    def __init__(self, states: Sequence[Any]):
        self.states = states

    def reorder(self, rows: Tensor) -> None:
        for state in self.states:
            state.reorder(rows)

    def keep(self, sentences: Tensor, rows: Tensor) -> None:
        for state in self.states:
            state.keep(sentences, rows)


class Ensemble:
    """Step models over one vocabulary as a step model.

    Args:
        members: at least one.
    """

    def __init__(self, members: Sequence[StepModel[Any]]):
        if not members:
            raise ValueError("an ensemble needs at least one model")
        self.members = members

    def start(self, source_BS: Tensor) -> EnsembleState:
        return EnsembleState([member.start(source_BS) for member in self.members])

    def step(self, tokens_R: Tensor, state: EnsembleState) -> Tensor:
        """Log of the mean probability (R, V) of each next token."""
        each = zip(self.members, state.states, strict=True)
        log_probs_NRV = torch.stack([member.step(tokens_R, own) for member, own in each])
        return log_probs_NRV.logsumexp(dim=0) - math.log(len(self.members))
