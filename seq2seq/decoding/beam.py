"""Beam search: keep the N likeliest unfinished hypotheses of each sentence.

All is decided on the device of the model, for all sentences at once; one transfer of a few bytes
per step tells the program what has ended.

Shapes: B unfinished sentences, G groups of their beams; M beams they have now (1 at the start, then
N), R = B x M rows of the model (row b * M + m is beam m of sentence b), L tokens so far, V
vocabulary; K likeliest tokens of a beam, C extensions of a sentence to choose from, E outputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

import torch
from torch import Tensor

from seq2seq.config import DecodeConfig
from seq2seq.data.tokenizer import BOS, EOS, PAD
from seq2seq.decoding.constraints import Constraint, History, NoInputMarks, apply_constraints
from seq2seq.decoding.hypothesis import Finished, Hypothesis, length_divisor, rows_of
from seq2seq.decoding.lexical_constraints import RequiredTerms, round_robin
from seq2seq.decoding.step import State, StepModel


def beam_search(
    model: StepModel[State],
    source_BS: Tensor,
    limits: Sequence[int],
    config: DecodeConfig,
    constraints: Sequence[Constraint] = (NoInputMarks(),),
    return_all_finished: bool = False,
) -> list[list[Hypothesis]]:
    """Up to `config.n_best` hypotheses for each source (B, S), best first.

    With `return_all_finished` all that have ended by then; the search does not go on for them.

    As in fairseq, an end mark counts only among the N best candidates of a step, and a sentence is
    done once N hypotheses have ended, or earlier when no continuation can change the results (see
    `_Progress.done`).

    With `config.groups` the beams are groups that are searched one after another at each step,
    each like a beam of its own, with `config.diversity` taken off a token for each time an
    earlier group has just chosen it (Vijayakumar et al. 2018).

    With `RequiredTerms` among the constraints, beams are shared between hypotheses that have met
    more and fewer tokens of the terms (see `lexical_constraints.py`).
    """
    device, groups = source_BS.device, config.groups
    beams = _Beams.empty(len(limits), device)
    rule = _StopRule(limits, config, device)
    finished = Finished(config)
    state = model.start(source_BS)
    last_R = source_BS.new_full((len(limits),), BOS)
    while True:
        extensions, met_BC = _expand(model.step(last_R, state), beams, config, constraints)
        going_on, ends = _choose(extensions, met_BC, beams.width, config)
        longer = beams.extended(going_on)
        ended_BN, done_B, moved = _on_host(rule.ended(ends, beams), rule.done(longer), going_on)
        if ended_BN.any():
            finished.add(*beams.outputs(ends, ended_BN, groups))
        beams, rows_R = longer, going_on.rows.flatten()
        if done_B.any():
            finished.add(*beams.cut_off(done_B, groups))
            if done_B.all():
                break
            kept_B, kept_R = rows_of(~done_B, beams.width, device)
            beams, rows_R = beams.at(kept_B, kept_R), rows_R[kept_R]
            rule.keep(kept_B)
            state.keep(kept_B, rows_R)
        elif moved:
            state.reorder(rows_R)
        last_R = beams.tokens_RL[:, -1]
    found = finished.of_owners(len(limits) * (groups + 1))
    wanted = None if return_all_finished or config.coverage else config.n_best
    return [
        _best_first(found[i : i + groups], found[i + groups])[:wanted]
        for i in range(0, len(found), groups + 1)
    ]


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


class _Beams(NamedTuple):
    """The unfinished hypotheses of each sentence.

    Attributes:
        sentence_R: place of its source in the batch.
        tokens_RL, log_probs_RL: of the model.
        totals_BM: what they are ranked by: sums of `log_probs_RL`, unless rules changed them.
    """

    sentence_R: Tensor
    tokens_RL: Tensor
    log_probs_RL: Tensor
    totals_BM: Tensor

    @classmethod
    def empty(cls, sentences: int, device: torch.device) -> _Beams:
        return cls(
            sentence_R=torch.arange(sentences, device=device),
            tokens_RL=torch.empty(sentences, 0, dtype=torch.long, device=device),
            log_probs_RL=torch.empty(sentences, 0, dtype=torch.double, device=device),
            totals_BM=torch.zeros(sentences, 1, dtype=torch.double, device=device),
        )

    @property
    def width(self) -> int:
        return self.totals_BM.size(1)

    @property
    def sums_BM(self) -> Tensor:
        """Log probabilities of the hypotheses."""
        return self.log_probs_RL.sum(dim=1).view_as(self.totals_BM)

    def longer(self, rows_E: Tensor, tokens_E: Tensor, log_probs_E: Tensor) -> list[Tensor]:
        """Sentences, tokens and log probabilities of these hypotheses with one more token."""
        tokens_EL = torch.cat([self.tokens_RL[rows_E], tokens_E[:, None]], dim=1)
        log_probs_EL = torch.cat([self.log_probs_RL[rows_E], log_probs_E[:, None]], dim=1)
        return [self.sentence_R[rows_E], tokens_EL, log_probs_EL]

    def extended(self, by: _Extensions) -> _Beams:
        return _Beams(*self.longer(*(column.flatten() for column in by[:3])), by.totals)

    def at(self, places_B: Tensor, rows_R: Tensor) -> _Beams:
        """Of some sentences only."""
        return _Beams(*(part[rows_R] for part in self[:3]), self.totals_BM[places_B])


    def outputs(self, ends: _Extensions, ended_BN: Tensor, groups: int) -> list[Tensor]:
        """Owners, tokens and log probabilities of what has ended."""
        places_E = ended_BN.flatten().nonzero()[:, 0].to(self.tokens_RL.device)
        sentence_E, *output = self.longer(*(column.flatten()[places_E] for column in ends[:3]))
        ends_each = ended_BN.size(1)
        group_E = places_E % ends_each // (ends_each // groups)
        return [sentence_E * (groups + 1) + group_E, *output]

    def cut_off(self, done_B: Tensor, groups: int) -> list[Tensor]:
        """The same of the first hypotheses of sentences that are done: better than nothing."""
        rows_E = self.width * done_B.nonzero()[:, 0].to(self.tokens_RL.device)
        sentence_E, *output = (part[rows_E] for part in self[:3])
        return [sentence_E * (groups + 1) + groups, *output]


def _expand(
    log_probs_RV: Tensor,
    beams: _Beams,
    config: DecodeConfig,
    constraints: Sequence[Constraint],
) -> tuple[_Extensions, Tensor | None]:
    """The likeliest tokens of each hypothesis, in the order of their ids.

    Tokens of terms that are wanted next are among them, however unlikely they are; and the second
    result is how many tokens of terms each extension has met (B, C).
    """
    history = History(beams.tokens_RL, beams.sentence_R, beams.width)
    ranks_RV = apply_constraints(log_probs_RV, constraints, history)
    tokens_RK = largest(ranks_RV, min(2 * config.beam, ranks_RV.size(1)))
    terms = next((rule for rule in constraints if isinstance(rule, RequiredTerms)), None)
    if terms is not None:
        wanted_RP, which_RP = terms.wanted(history)
        new_RP = which_RP & (wanted_RP[..., None] != tokens_RK[:, None]).all(dim=2)
        # Padding, which is impossible, fills up: a search must not depend on other sentences' terms.
        tokens_RK = torch.cat([tokens_RK, wanted_RP.where(new_RP, PAD)], dim=1)
    tokens_RK = tokens_RK.sort(dim=1).values
    ranks_RK = ranks_RV.gather(1, tokens_RK).double()
    log_probs_RK = ranks_RK
    if ranks_RV is not log_probs_RV:
        own_RK = log_probs_RV.gather(1, tokens_RK).double()
        log_probs_RK = own_RK.masked_fill(ranks_RK == -torch.inf, -torch.inf)
    rows_RK = torch.arange(len(tokens_RK), device=tokens_RK.device)[:, None].expand_as(tokens_RK)
    totals_RK = beams.totals_BM.view(-1, 1) + ranks_RK
    columns = (rows_RK, tokens_RK, log_probs_RK, totals_RK)
    extensions = _Extensions(*(column.reshape(len(beams.totals_BM), -1) for column in columns))
    met_BC = None if terms is None else terms.constraints_met(history, tokens_RK)
    return extensions, None if met_BC is None else met_BC.view_as(extensions.tokens)


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
    extensions: _Extensions, met_BC: Tensor | None, width: int, config: DecodeConfig
) -> tuple[_Extensions, _Extensions]:
    """The best extensions that go on (B, N), and those among which an end mark counts.

    Args:
        extensions: of `width` beams, one beam after another.
        met_BC: constraints that each extension has met; see `round_robin`.
        width: M.
        config: beams, groups and their diversity.
    """
    size = config.beam // config.groups
    parts = config.groups if width > 1 else 1  # at the start all groups share the empty hypothesis
    own = extensions.tokens.size(1) // parts
    going_on: list[_Extensions] = []
    ends: list[_Extensions] = []
    for group in range(config.groups):
        columns = slice(group % parts * own, (group % parts + 1) * own)
        some = _Extensions(*(column[:, columns] for column in extensions))
        if going_on:
            said_BX = torch.cat([one.tokens for one in going_on], dim=1)  # in this step
            times_BC = (some.tokens[..., None] == said_BX[:, None]).sum(dim=2)
            some = some._replace(totals=some.totals - config.diversity * times_BC)
        # Ties go to the first beam and token, as they stand, lest they depend on the batch.
        order_BC = (-some.totals).argsort(dim=1, stable=True)
        if met_BC is not None:
            order_BC = round_robin(order_BC, met_BC[:, columns], some.totals.isfinite())
        # Twice as many as go on: enough even if the end mark of every beam is among them.
        best = some.at(order_BC[:, : 2 * size])
        ends.append(_Extensions(*(column[:, :size] for column in best)))
        found = best.tokens.size(1)
        number = min(size, found - min(width // parts, found - 1))  # fewer if there are not so many
        going_on.append(best.at((best.tokens == EOS).argsort(dim=1, stable=True)[:, :number]))
    return _joined(going_on), _joined(ends)


def _joined(parts: list[_Extensions]) -> _Extensions:
    """Those of all groups."""
    if len(parts) == 1:
        return parts[0]
    return _Extensions(*(torch.cat(columns, dim=1) for columns in zip(*parts, strict=True)))


def _on_host(
    ended_BN: Tensor, done_B: Tensor, going_on: _Extensions
) -> tuple[Tensor, Tensor, bool]:
    """What ended, what is done, whether a row moves: the one time that a step waits for a GPU."""
    rows_R = going_on.rows.flatten()
    moved = (rows_R != torch.arange(len(rows_R), device=rows_R.device)).any()
    told = torch.cat([ended_BN.flatten(), done_B, moved[None]]).cpu()
    sizes = (ended_BN.numel(), len(done_B), 1)
    ended, done_B, moved = told.split(sizes)
    return ended.view_as(ended_BN), done_B, bool(moved)


def _best_first(groups: list[list[Hypothesis]], cut_off: list[Hypothesis]) -> list[Hypothesis]:
    """What ended, each once; ties keep the order in which they did. Else what the limit cut off."""
    unique: dict[tuple[int, ...], Hypothesis] = {}
    for one in chain.from_iterable(groups):
        unique.setdefault(tuple(one.tokens), one)  # groups may agree
    return sorted(unique.values(), key=lambda one: -one.score) or cut_off


class _StopRule:
    """Which sentences are done.

    Args:
        limits: of each output in tokens, end mark included.
        config: beams, groups, results that are wanted, and how they are scored.
        device: of the model.
    """

    def __init__(self, limits: Sequence[int], config: DecodeConfig, device: torch.device):
        self._config, self._size = config, config.beam // config.groups
        # With several groups or coverage, what is best is known at the end alone.
        self._early = config.groups == 1 and not config.coverage
        divisors = [length_divisor(limit, config) for limit in limits]
        self._limits_B = torch.tensor(limits, device=device)
        self._divisors_B = torch.tensor(divisors, dtype=torch.double, device=device)
        self._count_BG = self._limits_B.new_zeros(len(limits), config.groups)
        self._best_Bn = self._divisors_B.new_full((len(limits), config.n_best), -torch.inf)

    def ended(self, ends: _Extensions, beams: _Beams) -> Tensor:
        """Which of these are results: end marks, unless their group had enough before this step."""
        new_BN = (ends.tokens == EOS) & ends.totals.isfinite()
        new_BGN = new_BN.unflatten(1, (self._config.groups, -1))
        new_BGN &= self._count_BG[..., None] < self._size
        self._count_BG += new_BGN.sum(dim=2)
        if self._early:
            log_probs_BN = beams.sums_BM.flatten()[ends.rows] + ends.log_probs
            scores_BN = log_probs_BN / length_divisor(beams.tokens_RL.size(1) + 1, self._config)
            scores_BN = scores_BN.masked_fill(~new_BN, -torch.inf)
            all_BX = torch.cat([self._best_Bn, scores_BN], dim=1)
            self._best_Bn = all_BX.topk(self._config.n_best, dim=1).values
        return new_BN

    def done(self, beams: _Beams) -> Tensor:
        """Whether to stop (B,): at the limit, with N results, or when nothing better can come.

        More tokens can only lower a log probability (<= 0), and each divisor grows with length, so
        that the one of the largest length allowed brings it nearest to zero: no continuation of a
        hypothesis has a score above its log probability divided for the limit.
        """
        done_B = self._limits_B <= beams.tokens_RL.size(1)
        done_B |= (self._count_BG >= self._size).all(dim=1)
        done_B |= (beams.totals_BM == -torch.inf).all(dim=1)  # constraints left nothing to say
        if self._early:
            done_B |= self._best_Bn[:, -1] >= beams.sums_BM.amax(dim=1) / self._divisors_B
        return done_B

    def keep(self, places_B: Tensor) -> None:
        """Only these sentences go on."""
        for name in ("_limits_B", "_divisors_B", "_count_BG", "_best_Bn"):
            setattr(self, name, getattr(self, name)[places_B])
