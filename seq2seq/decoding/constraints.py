"""Constraints on the next token: small objects that every strategy applies alike.

They work on the device of the model, and nothing here waits for it. Required terms, the largest of
them, have a file of their own, `lexical_constraints.py`.

Shapes: B sources of a batch, R hypotheses being extended, L tokens that each has so far, V
vocabulary, C tokens of each hypothesis that a constraint is about.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from seq2seq.data.tokenizer import BOS, EOS, PAD
from seq2seq.decoding.history import History
from seq2seq.decoding.request import check_no_marks

Device = torch.device | str
NO_TOKEN = -1  # fills up what is shorter than others; never an id


class Constraint(Protocol):
    """Changes the log probabilities of the next token, in place.

    Attributes:
        soft: whether it changes those of tokens that stay possible. What is found is then ranked
            by the changed ones; the scores of results are always the model's own.
    """

    soft: bool

    def __call__(self, log_probs_RV: Tensor, history: History) -> None: ...


def apply_constraints(
    log_probs_RV: Tensor, constraints: Sequence[Constraint], history: History
) -> Tensor:
    """What the next tokens are to be ranked by (R, V).

    Args:
        log_probs_RV: of the model; tokens that must not be get minus infinity, here too.
        constraints: applied one after another.
        history: what the hypotheses have so far.
    """
    if any(constraint.soft for constraint in constraints):
        log_probs_RV = log_probs_RV.clone()
    for constraint in constraints:
        constraint(log_probs_RV, history)
    return log_probs_RV


def own_log_probs(tokens_RC: Tensor, log_probs_RV: Tensor, ranks_RV: Tensor) -> Tensor:
    """Of tokens (R, C) by the model; minus infinity for what constraints rule out."""
    own_RC = log_probs_RV.gather(1, tokens_RC).double()
    if ranks_RV is log_probs_RV:
        return own_RC
    return own_RC.masked_fill(ranks_RV.gather(1, tokens_RC) == -torch.inf, -torch.inf)


class NoInputMarks:
    """Padding and the start mark are inputs of a model, never outputs."""

    soft = False

    def __call__(self, log_probs_RV: Tensor, history: History) -> None:
        for mark in (PAD, BOS):
            log_probs_RV[:, mark].fill_(-torch.inf)


class MinLength:
    """No end mark before an output has so many tokens.

    Args:
        lengths: for each source of the batch.
        device: of the model, here and below.
    """

    soft = False

    def __init__(self, lengths: Sequence[int], device: Device = "cpu"):
        self.lengths_B, self.largest = torch.tensor(lengths, device=device), max(lengths)

    def __call__(self, log_probs_RV: Tensor, history: History) -> None:
        if history.length < self.largest:
            short_R = self.lengths_B[history.sentence_R] > history.length
            log_probs_RV[:, EOS].masked_fill_(short_R, -torch.inf)


class ForcedPrefix:
    """Outputs begin with given tokens.

    Args:
        prefixes: for each source of the batch; an empty one asks for nothing.
    """

    soft = False

    def __init__(self, prefixes: Sequence[Sequence[int]], device: Device = "cpu"):
        check_no_marks("a prefix", prefixes)
        self.tokens_BL = padded(prefixes, PAD, device)

    def __call__(self, log_probs_RV: Tensor, history: History) -> None:
        if history.length < self.tokens_BL.size(1):
            next_R = self.tokens_BL[history.sentence_R, history.length]
            forced_R1 = (next_R != PAD)[:, None]
            keep_only(log_probs_RV, next_R[:, None], forced_R1, forced_R1)


class BannedSequences:
    """Given sequences of tokens never occur.

    Args:
        banned: the sequences of each source of the batch.
    """

    soft = False

    def __init__(self, banned: Sequence[Sequence[Sequence[int]]], device: Device = "cpu"):
        for sequences in banned:
            check_no_marks("a banned sequence", sequences)
            if not all(sequences):
                raise ValueError("a banned sequence is empty, and so every output would hold it")
        own = [set(map(tuple, sequences)) for sequences in banned]
        # Sources often ban the same sequences: S different ones, aligned at their ends.
        different = sorted(set().union(*own))
        applies = [[sequence in some for sequence in different] for some in own]
        self.applies_BS = torch.tensor(applies, dtype=torch.bool, device=device)
        self.begins_SW = padded([one[-2::-1] for one in different], NO_TOKEN, device).flip(1)
        self.last_S = torch.tensor([one[-1] for one in different], dtype=torch.long, device=device)

    def __call__(self, log_probs_RV: Tensor, history: History) -> None:
        longest = self.begins_SW.size(1)
        tail_RW = F.pad(history.tokens_RL, (longest, 0), value=PAD)[:, history.length :]
        same_RSW = (tail_RW[:, None] == self.begins_SW) | (self.begins_SW == NO_TOKEN)
        begun_RS = same_RSW.all(dim=2) & self.applies_BS[history.sentence_R]
        log_probs_RV.index_add_(1, self.last_S, _minus_infinity(log_probs_RV, begun_RS))


class NoRepeatNgram:
    """No n-gram occurs twice, unless nothing else can follow, as within a forced prefix.

    Args:
        size: its number of tokens, n (Paulus et al. 2018 take 3).
    """

    soft = False

    def __init__(self, size: int):
        if size < 1:
            raise ValueError(f"n-grams of {size} tokens cannot repeat: give 1 or more")
        self.size = size

    def __call__(self, log_probs_RV: Tensor, history: History) -> None:
        if history.length < self.size:
            return
        ngrams_RCn = history.tokens_RL.unfold(1, self.size, 1)
        begun_Rn = history.tokens_RL[:, history.length - self.size + 1 :]  # but for its last token
        again_RC = (ngrams_RCn[..., :-1] == begun_Rn[:, None]).all(dim=2)
        rule_out(log_probs_RV, ngrams_RCn[..., -1], again_RC)


class RepetitionPenalty:
    """Tokens that an output has already are less likely (Keskar et al. 2019, on log scale).

    Args:
        factor: what their log probabilities are multiplied by.
    """

    soft = True

    def __init__(self, factor: float):
        if not 1 <= factor < float("inf"):
            raise ValueError(f"a factor of {factor} would favour repetition: give 1 or more")
        self.factor = factor

    def __call__(self, log_probs_RV: Tensor, history: History) -> None:
        used_RL = history.tokens_RL
        log_probs_RV.scatter_(1, used_RL, self.factor * log_probs_RV.gather(1, used_RL))


def rule_out(log_probs_RV: Tensor, tokens_RC: Tensor, which_RC: Tensor) -> None:
    """Make those of the tokens impossible, except in a row where that would leave none."""
    before_RC = log_probs_RV.gather(1, tokens_RC)
    log_probs_RV.scatter_add_(1, tokens_RC, _minus_infinity(log_probs_RV, which_RC))
    dead_R1 = log_probs_RV.amax(dim=1, keepdim=True) == -torch.inf
    after_RC = log_probs_RV.gather(1, tokens_RC)
    log_probs_RV.scatter_(1, tokens_RC, torch.where(dead_R1, before_RC, after_RC))


def keep_only(log_probs_RV: Tensor, tokens_RC: Tensor, which_RC: Tensor, rows_R1: Tensor) -> None:
    """Rows keep those of the tokens and lose all others, except where that would leave none."""
    before_RC = log_probs_RV.gather(1, tokens_RC)
    kept_RC = before_RC.masked_fill(~which_RC, -torch.inf)
    rows_R1 = rows_R1 & (kept_RC.amax(dim=1, keepdim=True) != -torch.inf)
    log_probs_RV.masked_fill_(rows_R1, -torch.inf)
    log_probs_RV.scatter_(1, tokens_RC, torch.where(rows_R1, kept_RC, before_RC))


def _minus_infinity(like: Tensor, where: Tensor) -> Tensor:
    """What is added to log probabilities: minus infinity there, 0 elsewhere."""
    return like.new_zeros(where.shape).masked_fill_(where, -torch.inf)


def padded(sequences: Sequence[Sequence[int]], filler: int, device: Device) -> Tensor:
    """Sequences as the rows of one tensor, filled up at their ends."""
    longest = max(map(len, sequences), default=0)
    rows = [[*sequence, *[filler] * (longest - len(sequence))] for sequence in sequences]
    return torch.tensor(rows, dtype=torch.long, device=device).reshape(len(rows), longest)
