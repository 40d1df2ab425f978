"""Greedy search: the likeliest token at every step. Sampling extends outputs in the same way.

Shapes: B unfinished sources, R = B x n outputs being extended, n for each source; L their tokens so
far, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from seq2seq.config import DecodeConfig
from seq2seq.data.tokenizer import BOS, EOS
from seq2seq.decoding.constraints import Constraint, apply_constraints
from seq2seq.decoding.history import History, collect_hypotheses
from seq2seq.decoding.hypothesis import Hypothesis
from seq2seq.decoding.step import Searchable

# Values that rank the next tokens (R, V), and the outputs so far -> the next tokens (R,).
Choice = Callable[[Tensor, History], Tensor]


def greedy_search(
    model: Searchable,
    source_BS: Tensor,
    limits: Sequence[int],
    config: DecodeConfig,
    constraints: Sequence[Constraint] = (),
) -> list[list[Hypothesis]]:
    """Return one hypothesis for each source (B, S); `limits` are the most tokens of an output."""

    def likeliest(adjusted_RV: Tensor, history: History) -> Tensor:
        return adjusted_RV.max(dim=-1).indices  # on a CPU three times as fast as argmax

    return extend(model, source_BS, limits, config, constraints, choose=likeliest)


def extend(
    model: Searchable,
    source_BS: Tensor,
    limits: Sequence[int],
    config: DecodeConfig,
    constraints: Sequence[Constraint],
    *,
    choose: Choice,
    count: int = 1,
) -> list[list[Hypothesis]]:
    """Extend `count` independent outputs of each source, token by token, until they end.

    Sources leave the batch when all their outputs have ended. A step copies to the CPU only which
    sources continue, and waits for a GPU only there.
    """
    history, stopped = History.empty(len(limits), source_BS.device), list[History]()
    limit_B = torch.tensor(limits, device=source_BS.device)
    state = model.start(source_BS)
    last_R = source_BS.new_full((len(limits),), BOS)
    open_R = torch.ones(len(limits) * count, dtype=torch.bool, device=source_BS.device)
    while True:
        log_probs_RV = model.step(last_R, state)
        if not history.length and count > 1:  # until now, each source had one empty output
            rows_R = history.sentence_R.repeat_interleave(count)
            history, log_probs_RV = history.select(rows_R, count), log_probs_RV[rows_R]
            state.reorder(rows_R)
        last_R = choose(apply_constraints(log_probs_RV, constraints, history), history)
        chosen_R = log_probs_RV.gather(1, last_R[:, None])[:, 0].double()
        history = history.append(last_R, chosen_R)
        # Minus infinity: constraints forbid every token.
        open_R = open_R & (last_R != EOS) & (chosen_R != -torch.inf)
        open_R &= limit_B[history.sentence_R] > history.length
        going_B = open_R.view(-1, count).any(dim=1).cpu().numpy()

        if going_B.all():
            continue
        stopped.append(history.select(history.rows_of(~going_B)[1]))
        if not going_B.any():
            return collect_hypotheses(stopped, len(limits), config)
        kept_B, kept_R = history.rows_of(going_B)
        history, open_R, last_R = history.select(kept_R), open_R[kept_R], last_R[kept_R]
        state.keep(kept_B, kept_R)
