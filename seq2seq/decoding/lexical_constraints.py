"""Required terms: outputs contain given sequences, each as often as it is asked for.

A term may overlap with another, or stand inside it. A constraint for every strategy keeps an output
from ending before all terms are there, and leaves room for them; beam search also finds the place
where the model likes them best, by dynamic beam allocation (Post & Vilar 2018): the beams are
shared between hypotheses that have met more and fewer tokens of terms.

Shapes: B sources, R hypotheses, L tokens so far, V vocabulary; Q different terms of a source of at
most W tokens, P different tokens in them; K tokens that may extend a hypothesis, C of a sentence.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from seq2seq.data.tokenizer import EOS, PAD
from seq2seq.decoding.constraints import NO_TOKEN, Device, keep_only, padded
from seq2seq.decoding.history import History


class Missing(NamedTuple):
    """How many tokens are sure to complete an output.

    Attributes:
        now_R: if it goes on with the term that it is in the middle of.
        tokens_RP: the tokens of its terms; padding fills up.
        after_RP: once each of them has come next.
        other_R: once any other token has.
    """

    now_R: Tensor
    tokens_RP: Tensor
    after_RP: Tensor
    other_R: Tensor


class RequiredTerms:
    """No output ends before its terms are there, and none leaves them too little room.

    Args:
        terms: those of each source of the batch.
        limits: most tokens of each output, end mark included.
        force_at_eos: from where the model would end an output, write out what is missing. Greedy
            search and sampling need it: they know no other hypotheses, and would go on to the
            limit.
        device: of the model.
    """

    def __init__(
        self,
        terms: Sequence[Iterable[Sequence[int]]],
        limits: Sequence[int],
        force_at_eos: bool = False,
        device: Device = "cpu",
    ):
        counts = [Counter(map(tuple, sequences)) for sequences in terms]
        most = max(map(len, counts))
        filled_up = chain.from_iterable([*own, *[()] * (most - len(own))] for own in counts)
        self.terms_BQW = padded(list(filled_up), NO_TOKEN, device).reshape(len(counts), most, -1)
        self.counts_BQ = padded([list(own.values()) for own in counts], 0, device)
        self.total_B = (self.counts_BQ * (self.terms_BQW != NO_TOKEN).sum(dim=2)).sum(dim=1)
        tokens = [sorted(set(chain.from_iterable(own))) for own in counts]
        self.tokens_BP = padded(tokens, PAD, device)
        self.limits_B, self.force_at_eos = torch.tensor(limits, device=device), force_at_eos
        # Outputs that are being completed, by source and number; there are as many as asked about.
        self._forcing_BN = torch.zeros(len(counts), 0, dtype=torch.bool, device=device)
        self._latest: tuple[History, Missing] | None = None

    def __call__(self, log_probs_RV: Tensor, history: History) -> Tensor:
        missing = self.missing(history)
        lacking_R = missing.now_R > 0
        room_R = self.limits_B[history.sentence_R] - history.length - 2  # beside this and the end
        if self.force_at_eos:
            likeliest_R = log_probs_RV.max(dim=1).indices
            forced_R = self._forced(history, lacking_R & (likeliest_R == EOS))
            room_R = torch.where(forced_R, room_R.minimum(missing.now_R - 1), room_R)
        log_probs_RV[:, EOS].masked_fill_(lacking_R, -torch.inf)
        fits_RP = (missing.after_RP <= room_R[:, None]) & (missing.tokens_RP != PAD)
        crowded_R = lacking_R & (missing.other_R > room_R)
        keep_only(log_probs_RV, missing.tokens_RP, fits_RP, crowded_R[:, None])
        return log_probs_RV

    def _forced(self, history: History, ending_R: Tensor) -> Tensor:
        """Which outputs are completed from now on, or were before (R,)."""
        sentences, width = len(self._forcing_BN), history.width
        if not self._forcing_BN.size(1):
            self._forcing_BN = ending_R.new_zeros(sentences, width)
        number_R = torch.arange(len(ending_R), device=ending_R.device) % width
        self._forcing_BN[history.sentence_R, number_R] |= ending_R
        return self._forcing_BN[history.sentence_R, number_R]

    def wanted(self, history: History) -> tuple[Tensor, Tensor]:
        """Tokens of terms (R, P), and which of them bring a hypothesis nearer to its terms."""
        missing = self.missing(history)
        return missing.tokens_RP, missing.after_RP < missing.now_R[:, None]

    def constraints_met(self, history: History, tokens_RK: Tensor) -> Tensor:
        """Tokens of terms that each hypothesis would have after each of its tokens (R, K)."""
        missing = self.missing(history)
        same_RKP = tokens_RK[..., None] == missing.tokens_RP[:, None]
        gained_RP = missing.other_R[:, None] - missing.after_RP
        met_R = self.total_B[history.sentence_R] - missing.other_R
        return met_R[:, None] + (same_RKP * gained_RP[:, None]).sum(dim=2)

    def missing(self, history: History) -> Missing:
        """What each hypothesis lacks; asked for several times in one step."""
        if self._latest is None or self._latest[0] is not history:
            self._latest = (history, self._missing(history))
        return self._latest[1]

    def _missing(self, history: History) -> Missing:
        tables = (self.terms_BQW, self.counts_BQ, self.tokens_BP)
        terms_RQW, counts_RQ, tokens_RP = (table[history.sentence_R] for table in tables)
        width, given_RQW = terms_RQW.size(2), terms_RQW != NO_TOKEN
        lengths_RQ, size_W = given_RQW.sum(dim=2), torch.arange(width, device=terms_RQW.device)

        windows_RLW = F.pad(history.tokens_RL, (0, width), value=PAD).unfold(1, width, 1)
        here_RLQW = (windows_RLW[:, :, None] == terms_RQW[:, None]) | ~given_RQW[:, None]
        left_RQ = (counts_RQ - here_RLQW.all(dim=3).sum(dim=1)).clamp(min=0)
        other_R = (left_RQ * lengths_RQ).sum(dim=1)

        # Whether an output ends with the first 0, 1, ... tokens of a term ...
        tail_RW = F.pad(history.tokens_RL, (width, 0), value=PAD)[:, history.length :]
        tails = [tail_RW[:, None, width - k :] == terms_RQW[..., :k] for k in range(width)]
        begun_RQW = torch.stack([tail.all(dim=2) for tail in tails], dim=2)
        open_RQW = begun_RQW & (left_RQ > 0)[..., None] & (size_W < lengths_RQ[..., None])
        now_R = other_R - (open_RQW * size_W).amax(dim=(1, 2))
        # ... and with one more, once a token has come next.
        grown_RPQW = open_RQW[:, None] & (terms_RQW[:, None] == tokens_RP[..., None, None])
        ended_RPQW = grown_RPQW & (size_W + 1 == lengths_RQ[:, None, :, None])
        left_RPQ = left_RQ[:, None] - ended_RPQW.any(dim=3).long()
        grown_RPQW &= ~ended_RPQW & (left_RPQ > 0)[..., None]
        after_RP = (left_RPQ * lengths_RQ[:, None]).sum(dim=2)
        after_RP = after_RP - (grown_RPQW * (size_W + 1)).amax(dim=(2, 3))
        return Missing(now_R, tokens_RP, after_RP, other_R)


def round_robin(order_BC: Tensor, met_BC: Tensor, possible_BC: Tensor) -> Tensor:
    """Order candidates so that each bank has its turn: all first ones, all second ones, ...

    A bank is the candidates that have met equally many constraints. Whatever number is then taken
    from the front, banks share it equally, the fullest having the rest, and what one cannot fill
    goes to the others.

    Args:
        order_BC: candidates, best first.
        met_BC: how many constraints each has met.
        possible_BC: those that are not come last.
    """
    met_BC, possible_BC = (column.gather(1, order_BC) for column in (met_BC, possible_BC))
    turn_BC = _turns(met_BC)
    lacking_BC = met_BC.amax(dim=1, keepdim=True) - met_BC
    banks_B1 = lacking_BC.amax(dim=1, keepdim=True) + 1
    last_B1 = banks_B1 * (turn_BC.amax(dim=1, keepdim=True) + 1)
    key_BC = (~possible_BC) * last_B1 + turn_BC * banks_B1 + lacking_BC
    return order_BC.gather(1, key_BC.argsort(dim=1, stable=True))


def _turns(banks_BC: Tensor) -> Tensor:
    """For each candidate how many of the same bank stand before it."""
    sorted_BC, by_bank_BC = banks_BC.sort(dim=1, stable=True)
    place_BC = torch.arange(banks_BC.size(1), device=banks_BC.device).expand_as(banks_BC)
    first_BC = sorted_BC != F.pad(sorted_BC, (1, 0))[:, :-1]
    first_BC[:, 0] = True
    start_BC = (place_BC * first_BC).cummax(dim=1).values
    return torch.zeros_like(banks_BC).scatter_(1, by_bank_BC, place_BC - start_BC)
