"""Beam search: keep the N likeliest unfinished hypotheses of each sentence.

Beams are chosen on the device of the model, for all sentences at once. A few numbers of each
sentence are brought to the CPU at each step, where they tell which sentences are done; there NumPy
is faster: in torch, the stop rule of a step took 0.02 ms more. The rest is as fast in torch as it
was in NumPy, also on one core of a CPU: 0.20, 0.82 and 2.9 ms a step for 1, 16 and 64 sentences
with 5 beams and 8,000 tokens (before 0.18, 0.87 and 3.2), mostly for finding the likeliest tokens.

Shapes: B unfinished sentences, M beams they have now (1 at the start, then N), R = B x M rows of
the model (row b * M + m is beam m of sentence b), L tokens so far, V vocabulary; K likeliest tokens
of a beam, C extensions of a sentence to choose from, E outputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from seq2seq.config import DecodeConfig
from seq2seq.data.tokenizer import BOS, EOS, PAD
from seq2seq.decoding.constraints import (
    Constraint,
    apply_constraints,
    own_log_probs,
)
from seq2seq.decoding.history import History, assembled
from seq2seq.decoding.hypothesis import Hypothesis, length_divisor
from seq2seq.decoding.lexical_constraints import RequiredTerms, round_robin
from seq2seq.decoding.step import State, StepModel


def beam_search(
    model: StepModel[State],
    source_BS: Tensor,
    limits: Sequence[int],
    config: DecodeConfig,
    constraints: Sequence[Constraint] = (),
    return_all_finished: bool = False,
) -> list[list[Hypothesis]]:
    """Up to `config.n_best` hypotheses for each source (B, S), best first.

    With `return_all_finished` all that have ended by then; the search does not go on for them.

    As in fairseq, an end mark counts only among the N best candidates of a step, and a sentence is
    done once N hypotheses have ended, or earlier when no continuation can change the results (see
    `_StopRule`).

    With `RequiredTerms` among the constraints, beams are shared between hypotheses that have met
    more and fewer tokens of the terms (see `lexical_constraints.py`).
    """
    history, finished = History.empty(len(limits), source_BS.device), list[History]()
    totals_BM = torch.zeros(len(limits), 1, dtype=torch.double, device=source_BS.device)
    rule, state = _StopRule(limits, config), model.start(source_BS)
    last_R = source_BS.new_full((len(limits),), BOS)
    while True:
        extensions, met_BC = _expand(
            model.step(last_R, state), history, totals_BM, config, constraints
        )
        going_on, ends = _choose(extensions, met_BC, history.width, config.beam)
        longer, rows_R, totals_BM = going_on.of(history), going_on.rows.flatten(), going_on.totals
        ended_BN, best_B, moved = _on_host(ends, history, longer, rows_R)
        new_BN, done_B = rule(ended_BN, best_B, longer.length)

        if new_BN.any():
            new_E = torch.from_numpy(np.flatnonzero(new_BN)).to(rows_R.device, non_blocking=True)
            finished.append(_Extensions(*(c.flatten()[None, new_E] for c in ends)).of(history))
        history = longer
        if done_B.any():  # the first hypothesis, too, in case none ended
            finished.append(history.at(history.rows_of(done_B)[1][:: history.width]))
            if done_B.all():
                break
            kept_B, kept_R = history.rows_of(~done_B)
            history, totals_BM, rows_R = history.at(kept_R), totals_BM[kept_B], rows_R[kept_R]
            state.keep(kept_B, rows_R)
        elif moved:
            state.reorder(rows_R)
        last_R = history.tokens_RL[:, -1]
    wanted = None if return_all_finished else config.n_best
    return [_best_first(own)[:wanted] for own in assembled(finished, len(limits), config)]


class _Extensions(NamedTuple):
    """Hypotheses with one more token, to choose from; all (B, C).

    Attributes:
        rows: of the hypotheses that are extended.
        tokens: by what.
        log_probs: of these tokens, by the model.
        totals: what the extensions are ranked by.
    """

    rows: Tensor
    tokens: Tensor
    log_probs: Tensor
    totals: Tensor

    def at(self, places_BX: Tensor) -> _Extensions:
        return _Extensions(*(column.gather(1, places_BX) for column in self))

    def of(self, history: History) -> History:
        """The hypotheses with their new tokens."""
        parents = history.at(self.rows.flatten(), self.rows.size(1))
        return parents.append(self.tokens.flatten(), self.log_probs.flatten())


def _expand(
    log_probs_RV: Tensor,
    history: History,
    totals_BM: Tensor,
    config: DecodeConfig,
    constraints: Sequence[Constraint],
) -> tuple[_Extensions, Tensor | None]:
    """The likeliest tokens of each hypothesis, in the order of their ids.

    Tokens of terms that are wanted next are among them, however unlikely they are; and the second
    result is how many tokens of terms each extension has met (B, C).
    """
    ranks_RV = apply_constraints(log_probs_RV, constraints, history)
    tokens_RK = largest(ranks_RV, min(2 * config.beam, ranks_RV.size(1)))
    terms = next((rule for rule in constraints if isinstance(rule, RequiredTerms)), None)
    if terms is not None:
        wanted_RP, which_RP = terms.wanted(history)
        new_RP = which_RP & (wanted_RP[..., None] != tokens_RK[:, None]).all(dim=2)
        # Padding, which is impossible, fills up: no sentence depends on the terms of others.
        tokens_RK = torch.cat([tokens_RK, wanted_RP.where(new_RP, PAD)], dim=1)
    tokens_RK = tokens_RK.sort(dim=1).values
    totals_RK = totals_BM.view(-1, 1) + ranks_RV.gather(1, tokens_RK)
    rows_RK = torch.arange(len(tokens_RK), device=tokens_RK.device)[:, None].expand_as(tokens_RK)
    columns = (rows_RK, tokens_RK, own_log_probs(tokens_RK, log_probs_RV, ranks_RV), totals_RK)
    extensions = _Extensions(*(column.reshape(len(totals_BM), -1) for column in columns))
    if terms is None:
        return extensions, None
    return extensions, terms.constraints_met(history, tokens_RK).view_as(extensions.tokens)


def largest(x_RV: Tensor, count: int) -> Tensor:
    """Where the largest numbers of each row stand (R, count), in any order.

    They stand in the pieces of a row that have the largest maxima. A CPU finds these maxima ten
    times faster than `topk` goes through the row.
    """
    size = x_RV.size(1)
    width = next((w for w in (64, 32) if size % w == 0), size)
    if x_RV.device.type != "cpu" or size // width <= 2 * count:
        return x_RV.topk(count, dim=1, sorted=False).indices
    x_RPW = x_RV.reshape(len(x_RV), -1, width)
    pieces_RK = x_RPW.amax(dim=2).topk(count, dim=1, sorted=False).indices
    places_RC = (pieces_RK[..., None] * width + torch.arange(width)).flatten(1)
    best = x_RV.gather(1, places_RC).topk(count, dim=1, sorted=False).indices
    return places_RC.gather(1, best)


def _choose(
    extensions: _Extensions, met_BC: Tensor | None, width: int, beam: int
) -> tuple[_Extensions, _Extensions]:
    """The best extensions that go on (B, N), and those among which an end mark counts.

    Args:
        extensions: of `width` beams, one beam after another.
        met_BC: constraints that each extension has met; see `round_robin`.
        width: M.
        beam: N.
    """
    # Ties go to the first beam and token, as they stand, lest they depend on the batch.
    order_BC = (-extensions.totals).argsort(dim=1, stable=True)
    if met_BC is not None:
        order_BC = round_robin(order_BC, met_BC, extensions.totals > -torch.inf)
    # Twice as many as go on: enough even if the end mark of every beam is among them.
    best = extensions.at(order_BC[:, : 2 * beam])
    found = best.tokens.size(1)
    number = min(beam, found - min(width, found - 1))  # fewer if there are not so many
    ends_last = (best.tokens == EOS).int().argsort(dim=1, stable=True)
    ends = _Extensions(*(column[:, :beam] for column in best))
    return best.at(ends_last[:, :number]), ends


def _on_host(
    ends: _Extensions, history: History, longer: History, rows_R: Tensor
) -> tuple[np.ndarray, np.ndarray, bool]:
    """What the stop rule looks at: the one time that a step waits for a GPU.

    Returns:
        Log probabilities (B, N) of hypotheses that end, minus infinity where none does; the
        largest of those that go on (B,); whether any of these has another row than its parent.
    """
    ending_BN = (ends.tokens == EOS) & (ends.totals > -torch.inf)
    sums_BN = history.log_probs_RL.sum(dim=1)[ends.rows] + ends.log_probs
    ended_BN = sums_BN.where(ending_BN, -torch.inf)
    best_B1 = longer.log_probs_RL.sum(dim=1).view(len(ended_BN), -1).amax(dim=1, keepdim=True)
    told = torch.cat([ended_BN, best_B1, rows_R.view(len(best_B1), -1)], dim=1).cpu().numpy()
    ends_each, rows = ended_BN.size(1), told[:, ended_BN.size(1) + 1 :].ravel()
    return told[:, :ends_each], told[:, ends_each], bool((rows != np.arange(rows.size)).any())


def _best_first(found: list[Hypothesis]) -> list[Hypothesis]:
    """What ended; ties keep the order in which they did. Else what was cut off."""
    finished = [one for one in found if one.finished]
    return sorted(finished, key=lambda one: -one.score) or found


class _StopRule:
    """Which sentences are done: at the limit, with N results, or when nothing better can come.

    More tokens can only lower a log probability (<= 0), and each divisor grows with length, so that
    the one of the largest length allowed brings it nearest to zero: no continuation of a hypothesis
    has a score above its log probability divided for the limit.

    Args:
        limits: of each output in tokens, end mark included.
        config: beams, results that are wanted, and how they are scored.
    """

    def __init__(self, limits: Sequence[int], config: DecodeConfig):
        self._config = config
        self._limits_B = np.array(limits)
        self._divisors_B = np.array([length_divisor(limit, config) for limit in limits])
        self._count_B = np.zeros(len(limits), int)  # results
        self._best_Bn = np.full((len(limits), config.n_best), -np.inf)  # scores, the worst first

    def __call__(
        self, ended_BN: np.ndarray, best_B: np.ndarray, length: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Which ends are results (B, N), and which sentences are done (B,), which are forgotten.

        Args:
            ended_BN, best_B: see `_on_host`.
            length: tokens of all hypotheses.
        """
        new_BN = ended_BN > -np.inf
        if new_BN.any():
            self._count_B += new_BN.sum(axis=1)
            scores_BN = np.where(new_BN, ended_BN / length_divisor(length, self._config), -np.inf)
            all_BX = np.sort(np.concatenate([self._best_Bn, scores_BN], axis=1), axis=1)
            self._best_Bn = all_BX[:, -self._config.n_best :]
        done_B = (self._limits_B <= length) | (self._count_B >= self._config.beam)
        done_B |= np.isneginf(best_B)  # constraints left nothing to say
        done_B |= self._best_Bn[:, 0] >= best_B / self._divisors_B
        if done_B.any():
            for name in ("_limits_B", "_divisors_B", "_count_B", "_best_Bn"):
                setattr(self, name, getattr(self, name)[~done_B])
        return new_BN, done_B
