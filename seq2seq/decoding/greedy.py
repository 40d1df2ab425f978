"""Greedy search: the likeliest token at every step. Sampling extends outputs in the same way.

Shapes: B sources, R = B x n outputs being extended, n for each source; L their tokens so far,
V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from seq2seq.config import DecodeConfig
from seq2seq.data.tokenizer import BOS, EOS
from seq2seq.decoding.constraints import Constraint, History, NoInputMarks, apply_constraints
from seq2seq.decoding.hypothesis import Finished, Hypothesis, rows_of
from seq2seq.decoding.step import State, StepModel

Choice = Callable[[Tensor, History], Tensor]  # ranks (R, V), what was before -> tokens (R,)


def greedy_search(
    model: StepModel[State],
    source_BS: Tensor,
    limits: Sequence[int],
    config: DecodeConfig,
    constraints: Sequence[Constraint] = (NoInputMarks(),),
) -> list[list[Hypothesis]]:
    """One hypothesis for each source (B, S); `limits` are the output limits in tokens."""

    def likeliest(ranks_RV: Tensor, history: History) -> Tensor:
        return ranks_RV.max(dim=-1).indices  # on a CPU three times as fast as argmax

    return extend(model, source_BS, limits, config, constraints, likeliest)


def extend(
    model: StepModel[State],
    source_BS: Tensor,
    limits: Sequence[int],
    config: DecodeConfig,
    constraints: Sequence[Constraint],
    choose: Choice,
    count: int = 1,
) -> list[list[Hypothesis]]:
    """Extend `count` outputs of each source token by token, each on its own, to their ends.

    Sources leave the batch when all their outputs have ended. Which ones go on is all that a step
    brings to the CPU: the one time that it waits for a GPU.
    """
    finished = Finished(config)
    outputs = _Outputs.empty(limits, count, source_BS.device)
    state = model.start(source_BS)
    last_R = source_BS.new_full((len(limits),), BOS)
    while True:
        log_probs_RV = model.step(last_R, state)
        history = History(outputs.tokens_RL, outputs.sentence_R, count)
        if not history.length and count > 1:  # until now there was one empty output for each
            log_probs_RV = log_probs_RV[history.sentence_R]
            state.reorder(history.sentence_R)
        ranks_RV = apply_constraints(log_probs_RV, constraints, history)
        last_R = choose(ranks_RV, history)
        outputs = outputs.extended(last_R, _log_probs_of(last_R, log_probs_RV, ranks_RV))

        going_B = outputs.open_R.view(-1, count).any(dim=1).cpu()
        if going_B.all():
            continue
        _, ended_R = rows_of(~going_B, count, last_R.device)
        finished.add(*(part[ended_R] for part in outputs[:3]))
        if not going_B.any():
            return finished.of_owners(len(limits))
        kept_B, kept_R = rows_of(going_B, count, last_R.device)
        state.keep(kept_B, kept_R)
        outputs, last_R = _Outputs(*(part[kept_R] for part in outputs)), last_R[kept_R]


def _log_probs_of(tokens_R: Tensor, log_probs_RV: Tensor, ranks_RV: Tensor) -> Tensor:
    """The model's log probabilities (R,); minus infinity for what constraints rule out."""
    own_R = log_probs_RV.gather(1, tokens_R[:, None])[:, 0].double()
    if ranks_RV is log_probs_RV:
        return own_R
    return own_R.masked_fill(ranks_RV.gather(1, tokens_R[:, None])[:, 0] == -torch.inf, -torch.inf)


class _Outputs(NamedTuple):
    """The outputs of the sources that are left, as far as they are.

    Attributes:
        sentence_R: place of its source in the batch.
        tokens_RL, log_probs_RL: what comes after an end does not count.
        limit_R: most tokens.
        open_R: whether it has not ended yet.
    """

    sentence_R: Tensor
    tokens_RL: Tensor
    log_probs_RL: Tensor
    limit_R: Tensor
    open_R: Tensor

    @classmethod
    def empty(cls, limits: Sequence[int], count: int, device: torch.device) -> _Outputs:
        rows = len(limits) * count
        return cls(
            sentence_R=torch.arange(len(limits), device=device).repeat_interleave(count),
            tokens_RL=torch.empty(rows, 0, dtype=torch.long, device=device),
            log_probs_RL=torch.empty(rows, 0, dtype=torch.double, device=device),
            limit_R=torch.tensor(limits, device=device).repeat_interleave(count),
            open_R=torch.ones(rows, dtype=torch.bool, device=device),
        )

    def extended(self, tokens_R: Tensor, log_probs_R: Tensor) -> _Outputs:
        """One more token each; minus infinity is where constraints left nothing to say."""
        going_on_R = (tokens_R != EOS) & (log_probs_R != -torch.inf)
        below_R = self.limit_R > self.tokens_RL.size(1) + 1
        return self._replace(
            tokens_RL=torch.cat([self.tokens_RL, tokens_R[:, None]], dim=1),
            log_probs_RL=torch.cat([self.log_probs_RL, log_probs_R[:, None]], dim=1),
            open_R=self.open_R & going_on_R & below_R,
        )
