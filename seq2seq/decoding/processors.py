"""Rules about which token may come next: small objects that every strategy applies alike.

Shapes: R hypotheses being extended, L tokens that each has so far, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from seq2seq.data.tokenizer import BOS, EOS, PAD


@dataclass
class Past:
    """What the hypotheses have so far; on the CPU, whatever the device of the scores.

    Attributes:
        tokens_RL: their tokens, without the start mark.
        sentence_R: which source of the batch each extends.
    """

    tokens_RL: np.ndarray
    sentence_R: np.ndarray


class Processor(Protocol):
    """Changes the log probabilities of the next token, in place.

    Attributes:
        soft: whether it changes those of tokens that stay possible. What is found is then ranked
            by the changed ones; the scores of results are always the model's own.
    """

    soft: bool

    def __call__(self, log_probs_RV: Tensor, past: Past) -> None: ...


def ranks(log_probs_RV: Tensor, processors: Sequence[Processor], past: Past) -> Tensor:
    """By what the next tokens are to be chosen (R, V).

    Args:
        log_probs_RV: of the model; tokens that must not be get minus infinity.
        processors: applied one after another.
        past: what the hypotheses have so far.
    """
    if any(processor.soft for processor in processors):
        log_probs_RV = log_probs_RV.clone()
    for processor in processors:
        processor(log_probs_RV, past)
    return log_probs_RV


class InputMarks:
    """Padding and start mark are inputs of a model, never outputs."""

    soft = False

    def __call__(self, log_probs_RV: Tensor, past: Past) -> None:
        log_probs_RV[:, PAD] = -torch.inf
        log_probs_RV[:, BOS] = -torch.inf


class MinLength:
    """No end mark before an output has so many tokens.

    Args:
        least: for each source of the batch.
    """

    soft = False

    def __init__(self, least: Sequence[int]):
        self.least = np.asarray(least)

    def __call__(self, log_probs_RV: Tensor, past: Past) -> None:
        short_R = self.least[past.sentence_R] > past.tokens_RL.shape[1]
        if short_R.all():
            log_probs_RV[:, EOS] = -torch.inf
        elif short_R.any():
            rows = torch.from_numpy(np.flatnonzero(short_R)).to(log_probs_RV.device)
            log_probs_RV[rows, EOS] = -torch.inf
