"""Constraints on the next token, which every strategy applies alike.

They run on the device of the model and never wait for it. `check_requests` has already checked the
requests.

Shapes: B sources of a batch, R hypotheses being extended, L tokens that each has so far, V
vocabulary, C tokens of each hypothesis that a constraint affects.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from seq2seq.data.tokenizer import BOS, EOS, PAD
from seq2seq.decoding.history import History

Device = torch.device | str
NO_TOKEN = -1  # pads the shorter sequences; never a token id

# Takes log probabilities of the next token (R, V) and the hypotheses so far; returns the values
# that rank the tokens. Forbidden tokens get minus infinity in place, so that results show them as
# impossible. Penalties change a copy, because the scores of results are the model's own. So
# constraints that copy come last.
Constraint = Callable[[Tensor, History], Tensor]


def apply_constraints(
    log_probs_RV: Tensor, constraints: Sequence[Constraint], history: History
) -> Tensor:
    """Return the values (R, V) that rank the next tokens; write into the log probabilities.

    The constraints are applied one after another. Padding and the start mark are inputs of a
    model, never outputs.
    """
    for token in (PAD, BOS):
        log_probs_RV[:, token].fill_(-torch.inf)
    for constraint in constraints:
        log_probs_RV = constraint(log_probs_RV, history)
    return log_probs_RV


class MinLength:
    """Constraint: an output has a minimum number of tokens before its end mark.

    Args:
        lengths: the minimum for each source of the batch.
        device: device of the model, here and in the classes below.
    """

    def __init__(self, lengths: Sequence[int], device: Device = "cpu"):
        self.lengths_B, self.largest = torch.tensor(lengths, device=device), max(lengths)

    def __call__(self, log_probs_RV: Tensor, history: History) -> Tensor:
        if history.length < self.largest:
            short_R = self.lengths_B[history.sentence_R] > history.length
            log_probs_RV[:, EOS].masked_fill_(short_R, -torch.inf)
        return log_probs_RV


class ForcedPrefix:
    """Constraint: an output begins with given tokens.

    Args:
        prefixes: one for each source of the batch; an empty one forces nothing.
    """

    def __init__(self, prefixes: Sequence[Sequence[int]], device: Device = "cpu"):
        self.tokens_BL = padded(prefixes, PAD, device)

    def __call__(self, log_probs_RV: Tensor, history: History) -> Tensor:
        if history.length < self.tokens_BL.size(1):
            next_R1 = self.tokens_BL[history.sentence_R, history.length][:, None]
            before_R1 = log_probs_RV.gather(1, next_R1)
            # Not if another constraint forbids the token: no token would be left.
            forced_R1 = (next_R1 != PAD) & (before_R1 != -torch.inf)
            log_probs_RV.masked_fill_(forced_R1, -torch.inf)
            log_probs_RV.scatter_(1, next_R1, before_R1)
        return log_probs_RV


class BannedSequences:
    """Constraint: an output never contains given sequences of tokens.

    Args:
        banned: the sequences of each source of the batch.
    """

    def __init__(self, banned: Sequence[Sequence[Sequence[int]]], device: Device = "cpu"):
        own = [set(map(tuple, sequences)) for sequences in banned]
        # Sources often ban the same sequences: the S different ones are aligned at their ends.
        different = sorted(set().union(*own))
        applies = [[sequence in some for sequence in different] for some in own]
        self.applies_BS = torch.tensor(applies, dtype=torch.bool, device=device)
        self.begins_SW = padded([one[-2::-1] for one in different], NO_TOKEN, device).flip(1)
        self.last_S = torch.tensor([one[-1] for one in different], dtype=torch.long, device=device)

    def __call__(self, log_probs_RV: Tensor, history: History) -> Tensor:
        longest = self.begins_SW.size(1)
        tail_RW = F.pad(history.tokens_RL, (longest, 0), value=PAD)[:, history.length :]
        same_RSW = (tail_RW[:, None] == self.begins_SW) | (self.begins_SW == NO_TOKEN)
        begun_RS = same_RSW.all(dim=2) & self.applies_BS[history.sentence_R]
        return log_probs_RV.index_add_(1, self.last_S, _minus_infinity(log_probs_RV, begun_RS))


class NoRepeatNgram:
    """Constraint: no n-gram occurs twice, unless no other token can follow, as in a forced prefix.

    Args:
        size: n, the tokens of an n-gram (Paulus et al. 2018 use 3).
    """

    def __init__(self, size: int):
        self.size = size

    def __call__(self, log_probs_RV: Tensor, history: History) -> Tensor:
        if history.length < self.size:
            return log_probs_RV
        ngrams_RCn = history.tokens_RL.unfold(1, self.size, 1)
        begun_Rn = history.tokens_RL[:, history.length - self.size + 1 :]  # without its last token
        again_RC = (ngrams_RCn[..., :-1] == begun_Rn[:, None]).all(dim=2)
        # Forbid the repeated tokens, except in a row where no token would be left.
        tokens_RC = ngrams_RCn[..., -1]
        before_RC = log_probs_RV.gather(1, tokens_RC)
        log_probs_RV.scatter_add_(1, tokens_RC, _minus_infinity(log_probs_RV, again_RC))
        dead_R1 = log_probs_RV.amax(dim=1, keepdim=True) == -torch.inf
        after_RC = log_probs_RV.gather(1, tokens_RC)
        return log_probs_RV.scatter_(1, tokens_RC, torch.where(dead_R1, before_RC, after_RC))


class RepetitionPenalty:
    """Penalty: tokens that an output already has rank lower (Keskar et al. 2019, on log scale).

    Args:
        factor: multiplies the log probabilities of these tokens.
    """

    def __init__(self, factor: float):
        self.factor = factor

    def __call__(self, log_probs_RV: Tensor, history: History) -> Tensor:
        used_RL = history.tokens_RL
        return log_probs_RV.scatter(1, used_RL, self.factor * log_probs_RV.gather(1, used_RL))


def _minus_infinity(like: Tensor, where: Tensor) -> Tensor:
    """Return a term to add to log probabilities: minus infinity at `where`, 0 elsewhere."""
    return like.new_zeros(where.shape).masked_fill_(where, -torch.inf)


def padded(sequences: Sequence[Sequence[int]], filler: int, device: Device) -> Tensor:
    """Stack sequences as the rows of one tensor, padded at their ends."""
    longest = max(map(len, sequences), default=0)
    rows = [[*sequence, *[filler] * (longest - len(sequence))] for sequence in sequences]
    return torch.tensor(rows, dtype=torch.long, device=device).reshape(len(rows), longest)
