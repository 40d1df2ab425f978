"""Greedy search: the likeliest token at every step. Sampling extends outputs in the same way.

Shapes: B sources, R = B x n outputs being extended, n for each source; L their tokens so far,
V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from seq2seq.config import DecodeConfig
from seq2seq.data.tokenizer import BOS, EOS
from seq2seq.decoding.hypothesis import Hypothesis
from seq2seq.decoding.processors import InputMarks, Past, Processor, ranks
from seq2seq.decoding.step import State, StepModel

Choice = Callable[[Tensor, Past], Tensor]  # ranks (R, V), what was before -> tokens (R,)


def greedy_search(
    model: StepModel[State],
    source_BS: Tensor,
    limits: Sequence[int],
    config: DecodeConfig,
    processors: Sequence[Processor] = (InputMarks(),),
) -> list[list[Hypothesis]]:
    """One hypothesis for each source (B, S); `limits` are the output limits in tokens."""

    def likeliest(ranks_RV: Tensor, past: Past) -> Tensor:
        return ranks_RV.max(dim=-1).indices  # on a CPU three times as fast as argmax

    return extend(model, source_BS, limits, config, processors, likeliest)


def extend(
    model: StepModel[State],
    source_BS: Tensor,
    limits: Sequence[int],
    config: DecodeConfig,
    processors: Sequence[Processor],
    choose: Choice,
    count: int = 1,
) -> list[list[Hypothesis]]:
    """Extend `count` outputs of each source token by token, each on its own, to their ends.

    Sources leave the batch when all their outputs have ended. One transfer per step brings the
    chosen tokens and their log probabilities to the CPU, where the rest is done.
    """
    state = model.start(source_BS)
    results: list[list[Hypothesis]] = [[] for _ in limits]
    outputs = _Outputs.empty(limits, count)
    last_R = source_BS.new_full((len(limits),), BOS)
    while True:
        past = outputs.past
        log_probs_RV = model.step(last_R, state)
        if outputs.steps == 0 and count > 1:  # until now there was one empty output for each source
            rows_R = torch.arange(len(limits), device=last_R.device).repeat_interleave(count)
            log_probs_RV = log_probs_RV[rows_R]
            state.reorder(rows_R)
        ranks_RV = ranks(log_probs_RV, processors, past)
        last_R = choose(ranks_RV, past)
        chosen_R = log_probs_RV.gather(1, last_R[:, None])[:, 0]
        if ranks_RV is not log_probs_RV:  # which rules do not change then
            ruled_out_R = ranks_RV.gather(1, last_R[:, None])[:, 0] == -torch.inf
            chosen_R = chosen_R.masked_fill(ruled_out_R, -torch.inf)
        outputs.append(*torch.stack([last_R.double(), chosen_R.double()]).cpu().numpy())

        done_B = (outputs.length > 0).all(axis=1)
        if not done_B.any():
            continue
        for b in np.flatnonzero(done_B):
            results[outputs.sentence[b]] = outputs.hypotheses(int(b), config)
        going_B = np.flatnonzero(~done_B)
        if not len(going_B):
            return results
        outputs = outputs.of(going_B)
        rows = (going_B[:, None] * count + np.arange(count)).ravel()
        index, rows_R = (torch.from_numpy(i).to(last_R.device) for i in (going_B, rows))
        state.keep(index, rows_R)
        last_R = last_R[rows_R]


@dataclass
class _Outputs:
    """The outputs of the sources that are left, n of each, as far as they are.

    Attributes:
        sentence: (B,) place of the source in the batch.
        limit: (B,) most tokens.
        length: (B, n) tokens with the end mark; 0 = not ended.
        tokens, log_probs: (B, n, L).
    """

    sentence: np.ndarray
    limit: np.ndarray
    length: np.ndarray
    tokens: np.ndarray
    log_probs: np.ndarray

    @classmethod
    def empty(cls, limits: Sequence[int], count: int) -> _Outputs:
        shape = (len(limits), count)
        none = np.empty((*shape, 0))
        numbers = np.arange(len(limits))
        return cls(numbers, np.asarray(limits), np.zeros(shape, int), none.astype(int), none)

    @property
    def steps(self) -> int:
        return int(self.tokens.shape[2])

    @property
    def past(self) -> Past:
        rows = self.tokens.reshape(self.length.size, self.steps)
        return Past(rows, self.sentence.repeat(self.length.shape[1]))

    def of(self, kept: np.ndarray) -> _Outputs:
        return _Outputs(*(array[kept] for array in vars(self).values()))

    def append(self, tokens_R: np.ndarray, log_probs_R: np.ndarray) -> None:
        """One more token each; what comes after an end does not count."""
        new = (tokens_R.astype(int), log_probs_R)
        tokens, log_probs = (column.reshape(*self.length.shape, 1) for column in new)
        self.tokens = np.concatenate([self.tokens, tokens], axis=2)
        self.log_probs = np.concatenate([self.log_probs, log_probs], axis=2)
        ended = (tokens[..., 0] == EOS) | (self.limit == self.steps)[:, None]
        ended |= np.isneginf(log_probs[..., 0])  # rules left nothing to say
        self.length = np.where((self.length == 0) & ended, self.steps, self.length)

    def hypotheses(self, b: int, config: DecodeConfig) -> list[Hypothesis]:
        found = []
        for i, length in enumerate(self.length[b]):
            tokens = self.tokens[b, i, :length].tolist()
            finished = tokens[-1] == EOS
            words = tokens[:-1] if finished else tokens
            log_probs = self.log_probs[b, i, :length].tolist()
            found.append(Hypothesis.of(words, log_probs, config, finished))
        return found
