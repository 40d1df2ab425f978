"""Beam search: keep the N likeliest unfinished hypotheses of each sentence.

Beams are chosen on the device of the model, for all sentences at once. Each step copies a few
numbers of each sentence to the CPU, where they decide which sentences are done.

Shapes: B unfinished sentences, M beams of each (1 at the start, then N), R = B x M rows of
the model (row b * M + m is beam m of sentence b), L tokens so far, V vocabulary; K likeliest tokens
of a beam, C = M x K extensions of a sentence to choose from; n results that the caller wants.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from seq2seq.config import DecodeConfig
from seq2seq.data.tokenizer import BOS, EOS
from seq2seq.decoding.constraints import Constraint, apply_constraints
from seq2seq.decoding.history import History, collect_hypotheses, indices_of
from seq2seq.decoding.hypothesis import Hypothesis, length_divisor
from seq2seq.decoding.step import Searchable


def beam_search(
    model: Searchable,
    source_BS: Tensor,
    limits: Sequence[int],
    config: DecodeConfig,
    constraints: Sequence[Constraint] = (),
) -> list[list[Hypothesis]]:
    """Return all finished hypotheses of each source (B, S), best first; if none, one cut off.

    As in fairseq, an end mark counts only among the N best candidates of a step, and a sentence is
    done once N hypotheses have ended. A sentence is done earlier if no continuation can change its
    first `config.n_best` (see `_StopRule`): a longer search would return the same ones.
    """
    device, stopped = source_BS.device, list[History]()
    history = History.empty(len(limits), device)
    totals_BM = torch.zeros(len(limits), 1, dtype=torch.double, device=device)
    rule, state = _StopRule(limits, config), model.start(source_BS)
    last_R = source_BS.new_full((len(limits),), BOS)
    while True:
        log_probs_RV = model.step(last_R, state)
        going_on, end_candidates = _step(log_probs_RV, history, totals_BM, config, constraints)
        grown, totals_BM = going_on.extend(history), going_on.totals
        # Rows of the state are still those of `history`, the parents of `grown`.
        parents_R = going_on.rows.flatten()
        ended_BN, best_B, rows_changed = _on_host(end_candidates, history, grown, parents_R)
        results_BN, done_B = rule.judge(ended_BN, best_B, grown.length)

        if results_BN.any():
            stopped.append(end_candidates.extend(history).select(indices_of(results_BN, device)))
        if done_B.any():  # keep the first hypothesis, in case none has ended
            stopped.append(grown.select(grown.width * indices_of(done_B, device)))
            if done_B.all():
                return [*map(_best_first, collect_hypotheses(stopped, len(limits), config))]
            rule.keep(~done_B)
            kept_B, kept_R = grown.rows_of(~done_B)
            grown, totals_BM = grown.select(kept_R), totals_BM[kept_B]
            state.keep(kept_B, parents_R[kept_R])
        elif rows_changed:
            state.reorder(parents_R)
        history, last_R = grown, grown.tokens_RL[:, -1]


class _Extensions(NamedTuple):
    """Candidates: hypotheses with one more token; all tensors (B, C), or (B, N) after selection.

    Attributes:
        rows: rows of the hypotheses that are extended.
        tokens: the new tokens.
        log_probs: log probabilities of the new tokens under the model.
        totals: values that rank the extensions.
    """

    rows: Tensor
    tokens: Tensor
    log_probs: Tensor
    totals: Tensor

    def select(self, indices_BN: Tensor) -> _Extensions:
        return _Extensions(*(column.gather(1, indices_BN) for column in self))

    def extend(self, history: History) -> History:
        """Return the hypotheses with their new tokens, one per row."""
        parents = history.select(self.rows.flatten(), self.rows.size(1))
        return parents.append(self.tokens.flatten(), self.log_probs.flatten())


def _step(
    log_probs_RV: Tensor,
    history: History,
    totals_BM: Tensor,
    config: DecodeConfig,
    constraints: Sequence[Constraint],
) -> tuple[_Extensions, _Extensions]:
    """Return the N best extensions without an end mark, and the N best of all, end marks too.

    `totals_BM` are sums of adjusted log probabilities, whatever the length.
    """
    # The likeliest tokens of each hypothesis, in the order of their ids: (R, V) -> (R, K).
    adjusted_RV = apply_constraints(log_probs_RV, constraints, history)
    tokens_RK = largest(adjusted_RV, min(2 * config.beam, adjusted_RV.size(1))).sort(dim=1).values
    totals_RK = totals_BM.view(-1, 1) + adjusted_RV.gather(1, tokens_RK)
    log_probs_RK = log_probs_RV.gather(1, tokens_RK).double()
    rows_RK = torch.arange(len(tokens_RK), device=tokens_RK.device)[:, None].expand_as(tokens_RK)

    # The extensions of a sentence form one row, one beam after another: (R, K) -> (B, C).
    columns = (rows_RK, tokens_RK, log_probs_RK, totals_RK)
    extensions = _Extensions(*(column.reshape(len(totals_BM), -1) for column in columns))

    # 2N candidates leave N without an end mark, even if the end mark of every beam is among them:
    # (B, C) -> (B, 2N). Ties go to the first beam and token, so that they do not depend on the
    # batch.
    order_BC = (-extensions.totals).argsort(dim=1, stable=True)
    best = extensions.select(order_BC[:, : 2 * config.beam])
    end_candidates = _Extensions(*(column[:, : config.beam] for column in best))

    # Drop the end marks, at most one for each beam: (B, 2N) -> (B, N), or fewer if the vocabulary
    # is too small.
    ends_last = (best.tokens == EOS).int().argsort(dim=1, stable=True)
    number = min(config.beam, max(1, best.tokens.size(1) - history.width))
    return best.select(ends_last[:, :number]), end_candidates


def largest(x_RV: Tensor, count: int) -> Tensor:
    """Return the indices of the `count` largest numbers of each row (R, count), in any order.

    A row is cut into P pieces of W numbers. The largest numbers are in the pieces with the largest
    maxima, and a CPU finds these maxima ten times faster than `topk` searches the row.
    """
    size = x_RV.size(1)
    width = next((w for w in (64, 32) if size % w == 0), size)
    if x_RV.device.type != "cpu" or size // width <= 2 * count:
        return x_RV.topk(count, dim=1, sorted=False).indices
    x_RPW = x_RV.reshape(len(x_RV), -1, width)
    pieces_RK = x_RPW.amax(dim=2).topk(count, dim=1, sorted=False).indices
    inside = (pieces_RK[..., None] * width + torch.arange(width)).flatten(1)  # (R, K x W) indices
    best_RK = x_RV.gather(1, inside).topk(count, dim=1, sorted=False).indices
    return inside.gather(1, best_RK)


def _on_host(
    end_candidates: _Extensions, history: History, grown: History, parents_R: Tensor
) -> tuple[np.ndarray, np.ndarray, bool]:
    """Copy what the stop rule reads to the CPU; a step waits for a GPU only here.

    Args:
        end_candidates: extensions of the hypotheses in `history`.
        grown: other extensions of them.
        parents_R: the row in `history` of the parent of each hypothesis in `grown`.

    Returns:
        Log probabilities (B, N) of the candidates that end, minus infinity for the others; the
        largest log probability of the hypotheses in `grown` (B,); whether any hypothesis in
        `grown` has another row than its parent, as when one hypothesis becomes N.
    """
    ending_BN = (end_candidates.tokens == EOS) & (end_candidates.totals > -torch.inf)
    sums_BN = history.log_probs_RL.sum(dim=1)[end_candidates.rows] + end_candidates.log_probs
    ended_BN = sums_BN.where(ending_BN, -torch.inf)
    sentences, candidates = ended_BN.shape
    best_B1 = grown.log_probs_RL.sum(dim=1).view(sentences, -1).amax(dim=1, keepdim=True)
    on_cpu = torch.cat([ended_BN, best_B1, parents_R.view(sentences, -1)], dim=1).cpu().numpy()
    rows = on_cpu[:, candidates + 1 :].ravel()
    rows_changed = bool((rows != np.arange(rows.size)).any())
    return on_cpu[:, :candidates], on_cpu[:, candidates], rows_changed


def _best_first(found: list[Hypothesis]) -> list[Hypothesis]:
    """Sort finished hypotheses, best first, ties by order of ending; if none, return all."""
    finished = [one for one in found if one.finished]
    return sorted(finished, key=lambda one: -one.score) or found


class _StopRule:
    """Decides which sentences are done: at the limit, with N results, or if none better can follow.

    More tokens can only lower a log probability (<= 0), and the length divisor grows with length.
    So the divisor of the length limit brings a log probability nearest to zero: no continuation of
    a hypothesis scores above the hypothesis's log probability divided by that divisor.

    Args:
        limits: greatest length of each output in tokens, end mark included.
        config: number of beams and of results, and how hypotheses are scored.
    """

    def __init__(self, limits: Sequence[int], config: DecodeConfig):
        self._config = config
        self._limits_B = np.array(limits)
        self._divisors_B = np.array([length_divisor(limit, config) for limit in limits])
        self._count_B = np.zeros(len(limits), int)  # results so far
        self._best_Bn = np.full((len(limits), config.n_best), -np.inf)  # scores, the worst first

    def judge(
        self, ended_BN: np.ndarray, best_B: np.ndarray, length: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Note candidates that ended; return which are results (B, N), which sentences done (B,).

        Args:
            ended_BN, best_B: see `_on_host`.
            length: tokens of each hypothesis; all have the same number.
        """
        results_BN = ended_BN > -np.inf
        if results_BN.any():
            self._count_B += results_BN.sum(axis=1)
            scores_BN = ended_BN / length_divisor(length, self._config)
            rising = np.sort(np.concatenate([self._best_Bn, scores_BN], axis=1), axis=1)
            self._best_Bn = rising[:, -self._config.n_best :]
        done_B = (self._limits_B <= length) | (self._count_B >= self._config.beam)
        # Also if constraints forbid every continuation: then best_B is minus infinity.
        done_B |= self._best_Bn[:, 0] >= best_B / self._divisors_B
        return results_BN, done_B

    def keep(self, which_B: np.ndarray) -> None:
        """Continue with these sentences only."""
        self._limits_B, self._divisors_B = self._limits_B[which_B], self._divisors_B[which_B]
        self._count_B, self._best_Bn = self._count_B[which_B], self._best_Bn[which_B]
