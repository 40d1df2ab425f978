"""Greedy search: the likeliest token at every step."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from seq2seq.config import DecodeConfig
from seq2seq.data.tokenizer import BOS, EOS
from seq2seq.decoding.hypothesis import Hypothesis
from seq2seq.decoding.lengths import banned_tokens, normalised
from seq2seq.decoding.step import State, StepModel


def greedy_search(
    model: StepModel[State], source_BS: Tensor, limits: Sequence[int], config: DecodeConfig
) -> list[list[Hypothesis]]:
    """One hypothesis for each source (B, S); `limits` are the output limits in tokens."""
    state = model.start(source_BS)
    results: list[list[Hypothesis]] = [[] for _ in limits]
    outputs: list[list[int]] = [[] for _ in limits]
    totals = [0.0] * len(limits)
    alive = list(range(len(limits)))  # sentence of each row
    tokens = source_BS.new_full((len(limits),), BOS)
    while alive:
        log_probs_RV = model.step(tokens, state)
        length = len(outputs[alive[0]])
        log_probs_RV[:, banned_tokens(length, config)] = -torch.inf
        best = log_probs_RV.max(dim=-1)
        tokens = best.indices
        going: list[int] = []
        chosen = zip(alive, tokens.tolist(), best.values.tolist(), strict=True)
        for row, (sentence, token, log_prob) in enumerate(chosen):
            totals[sentence] += log_prob
            outputs[sentence].append(token)
            length = len(outputs[sentence])
            if token != EOS and length < limits[sentence]:
                going.append(row)
                continue
            words = outputs[sentence][:-1] if token == EOS else outputs[sentence]
            score = normalised(totals[sentence], length, config.length_penalty)
            results[sentence] = [Hypothesis(words, totals[sentence], score, token == EOS)]
        if len(going) < len(alive):
            alive = [alive[row] for row in going]
            rows = torch.tensor(going, dtype=torch.long, device=tokens.device)
            state.select(rows, rows)
            tokens = tokens[rows]
    return results
