"""Hypotheses while a search extends them.

Shapes: B unfinished sentences, R hypotheses (`width` of each sentence), L tokens so far.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from seq2seq.config import DecodeConfig
from seq2seq.decoding.hypothesis import Hypothesis


class History(NamedTuple):
    """The hypotheses so far, one per row, on the device of the model.

    Attributes:
        tokens_RL: token ids without the start mark.
        log_probs_RL: log probabilities of these tokens under the model.
        sentence_R: the source in the batch that each hypothesis translates; hypotheses of one
            source are neighbours.
        width: number of hypotheses of each source.
    """

    tokens_RL: Tensor
    log_probs_RL: Tensor
    sentence_R: Tensor
    width: int = 1

    @classmethod
    def empty(cls, sentences: int, device: torch.device) -> History:
        """Make one empty hypothesis for each source."""
        tokens_RL = torch.empty(sentences, 0, dtype=torch.long, device=device)
        return cls(tokens_RL, tokens_RL.double(), torch.arange(sentences, device=device))

    @property
    def length(self) -> int:
        return self.tokens_RL.size(1)

    def append(self, tokens_R: Tensor, log_probs_R: Tensor) -> History:
        """Return the hypotheses with one more token each."""
        tokens_RL = torch.cat([self.tokens_RL, tokens_R[:, None]], dim=1)
        log_probs_RL = torch.cat([self.log_probs_RL, log_probs_R[:, None]], dim=1)
        return self._replace(tokens_RL=tokens_RL, log_probs_RL=log_probs_RL)

    def select(self, rows_R: Tensor, width: int | None = None) -> History:
        """Return copies of some rows; `width` None = as before."""
        parts = (self.tokens_RL, self.log_probs_RL, self.sentence_R)
        tokens_RL, log_probs_RL, sentence_R = (part.index_select(0, rows_R) for part in parts)
        return History(tokens_RL, log_probs_RL, sentence_R, width or self.width)

    def rows_of(self, which_B: np.ndarray) -> tuple[Tensor, Tensor]:
        """Return the indices of these unfinished sentences, and those of their hypotheses."""
        device = self.tokens_RL.device
        return indices_of(which_B, device), indices_of(which_B.repeat(self.width), device)


def indices_of(which: np.ndarray, device: torch.device) -> Tensor:
    """Return the indices of the true elements of an array, as if it were flat, on a device."""
    return torch.from_numpy(np.flatnonzero(which)).to(device, non_blocking=True)


def collect_hypotheses(
    parts: Sequence[History], sentences: int, config: DecodeConfig
) -> list[list[Hypothesis]]:
    """Copy parts to the CPU; return the hypotheses of each sentence in the order of the parts."""
    found: list[list[Hypothesis]] = [[] for _ in range(sentences)]
    for part in parts:
        columns = (part.sentence_R, part.tokens_RL, part.log_probs_RL)
        rows = zip(*(column.tolist() for column in columns), strict=True)
        for sentence, tokens, log_probs in rows:
            found[sentence].append(Hypothesis.of(tokens, log_probs, config))
    return found
