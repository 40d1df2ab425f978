"""Beam search: keep the N likeliest unfinished hypotheses of each sentence.

Shapes: B unfinished sentences, M beams they have now (1 at the start, then N), L tokens so far,
V vocabulary, K likeliest tokens of each beam, C candidates. Rows of the model are sentence-major:
row b * M + m is beam m of sentence b. The model works on its device; one transfer per step brings
the likeliest tokens to the CPU, where everything is decided, in NumPy.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain

import numpy as np
import torch
from torch import Tensor

from seq2seq.config import DecodeConfig
from seq2seq.data.tokenizer import BOS, EOS
from seq2seq.decoding.hypothesis import Hypothesis
from seq2seq.decoding.lengths import best_possible
from seq2seq.decoding.processors import InputMarks, Past, Processor, ranks
from seq2seq.decoding.required import RequiredTerms, by_turns
from seq2seq.decoding.step import State, StepModel


def beam_search(
    model: StepModel[State],
    source_BS: Tensor,
    limits: Sequence[int],
    config: DecodeConfig,
    processors: Sequence[Processor] = (InputMarks(),),
    spare: bool = False,
) -> list[list[Hypothesis]]:
    """Up to `config.n_best` hypotheses for each source (B, S), best first.

    With `spare` all that have ended by then; the search does not go on for them.

    As in fairseq, an end mark counts only among the N best candidates of a step, and a
    sentence is done once N hypotheses have ended, or earlier when a bound on all
    continuations (see `lengths.best_possible`) shows that the results are final.

    With `config.groups` the beams are groups that are searched one after another at each step,
    each like a beam of its own, with `config.diversity` taken off a token for each time an
    earlier group has just chosen it (Vijayakumar et al. 2018).

    With `RequiredTerms` among the processors, beams are shared between hypotheses that have met
    more and fewer tokens of the terms (see `required.py`).
    """
    terms = next((rule for rule in processors if isinstance(rule, RequiredTerms)), None)
    sentences = [_Sentence(i, limit, config) for i, limit in enumerate(limits)]
    results: list[list[Hypothesis]] = [[] for _ in limits]
    state = model.start(source_BS)
    alive = _Beams.empty(len(sentences))
    last_R = source_BS.new_full((len(sentences),), BOS)
    while True:
        past = alive.past([sentence.index for sentence in sentences])
        top = _likeliest(model.step(last_R, state), 2 * config.beam, processors, past, terms)
        banks = None if terms is None else terms.banks(past, top.tokens)
        chosen, ended = _extensions(alive, top, config, banks)
        for b, group, parent, log_prob in ended:
            sentences[b].end(group, alive, b, parent, log_prob)
        rows_BN, alive = _extended(alive, chosen)

        going = [b for b, s in enumerate(sentences) if not s.done(alive, b)]
        if len(going) < len(sentences):
            for b in sorted(set(range(len(sentences))) - set(going)):
                results[sentences[b].index] = sentences[b].best(alive, b, spare)
            if not going:
                break
            sentences = [sentences[b] for b in going]
            rows_BN, alive = rows_BN[going], alive.of(going)
            state.keep(*(torch.tensor(i).to(source_BS.device) for i in (going, rows_BN.ravel())))
        elif not np.array_equal(rows_BN.ravel(), np.arange(rows_BN.size)):
            state.reorder(torch.from_numpy(rows_BN.ravel()).to(source_BS.device))
        last_R = torch.from_numpy(alive.tokens[..., -1].ravel()).to(source_BS.device)
    return results


@dataclass
class _Beams:
    """The unfinished hypotheses of each sentence.

    Attributes:
        tokens: (B, M, L).
        log_probs: of the model, for each token.
        totals: what beams are ranked by (B, M): sums of `log_probs`, unless rules changed them.
    """

    tokens: np.ndarray
    log_probs: np.ndarray
    totals: np.ndarray

    @classmethod
    def empty(cls, sentences: int) -> _Beams:
        none = (sentences, 1, 0)
        return cls(np.empty(none, np.int64), np.empty(none), np.zeros(none[:2]))

    @property
    def width(self) -> int:
        return int(self.totals.shape[1])

    def past(self, sentences: list[int]) -> Past:
        """As rules look at it."""
        rows = self.tokens.reshape(self.totals.size, self.tokens.shape[2])
        return Past(rows, np.repeat(sentences, self.width))

    def of(self, sentences: list[int]) -> _Beams:
        return _Beams(*(array[sentences] for array in vars(self).values()))


@dataclass
class _Top:
    """The K likeliest next tokens of each row, in no order; all (R, K)."""

    tokens: np.ndarray
    log_probs: np.ndarray
    ranks: np.ndarray


@dataclass
class _Chosen:
    """How each sentence goes on; all (B, N), best first within a group."""

    parents: np.ndarray  # beam that is extended
    tokens: np.ndarray
    log_probs: np.ndarray
    totals: np.ndarray


@dataclass
class _Sentence:
    """What is known of one sentence while its search goes on."""

    index: int  # place among the sources
    limit: int  # output limit in tokens, end mark included
    config: DecodeConfig
    results: dict[int, list[Hypothesis]] = field(default_factory=lambda: defaultdict(list))
    full: set[int] = field(default_factory=set)  # groups that have enough results

    def end(self, group: int, alive: _Beams, b: int, beam: int, log_prob: float) -> None:
        """A hypothesis ends here, unless its group had enough before this step."""
        if group not in self.full:
            log_probs = [*alive.log_probs[b, beam].tolist(), log_prob]
            result = Hypothesis.of(alive.tokens[b, beam].tolist(), log_probs, self.config, True)
            self.results[group].append(result)

    def done(self, alive: _Beams, b: int) -> bool:
        """Whether to stop: at the limit, with N results, or when nothing better can come."""
        config, size = self.config, self.config.beam // self.config.groups
        self.full |= {group for group, found in self.results.items() if len(found) >= size}
        if alive.tokens.shape[2] >= self.limit or len(self.full) == config.groups:
            return True
        if np.isneginf(alive.totals[b]).all():  # rules left nothing to say
            return True
        found = list(chain.from_iterable(self.results.values()))
        if len(found) < config.n_best or config.groups > 1 or config.coverage:
            return False
        scores = sorted((result.score for result in found), reverse=True)
        best_alive = float(alive.log_probs[b].sum(axis=1).max())
        return scores[config.n_best - 1] >= best_possible(best_alive, self.limit, config)

    def best(self, alive: _Beams, b: int, spare: bool) -> list[Hypothesis]:
        """The results, best first, each once; ties keep the order in which they ended."""
        found = list(chain.from_iterable(self.results.values()))
        if not found:  # cut off by the limit: better than nothing, and marked so
            log_probs = alive.log_probs[b, 0].tolist()
            return [Hypothesis.of(alive.tokens[b, 0].tolist(), log_probs, self.config, False)]
        unique: dict[tuple[int, ...], Hypothesis] = {}
        for result in found:
            unique.setdefault(tuple(result.tokens), result)  # groups may agree
        ranked = sorted(unique.values(), key=lambda result: -result.score)
        # What finds the best by coverage looks at all of them.
        return ranked if spare or self.config.coverage else ranked[: self.config.n_best]


def _likeliest(
    log_probs_RV: Tensor,
    count: int,
    processors: Sequence[Processor],
    past: Past,
    terms: RequiredTerms | None = None,
) -> _Top:
    """The best tokens of each row, on the CPU: one transfer, which waits for the model.

    Tokens of terms that are wanted next are among them, however unlikely they are.
    """
    ranks_RV = first_RV = ranks(log_probs_RV, processors, past)
    if terms is not None and (wanted := terms.wanted(past)):
        first_RV = ranks_RV.clone()
        rows, tokens = zip(*wanted, strict=True)
        first_RV[rows, tokens] = torch.inf
        count += max(Counter(rows).values())
    top_RK = largest(first_RV, min(count, ranks_RV.size(1)))
    rank = ranks_RV.gather(1, top_RK)
    own = rank if ranks_RV is log_probs_RV else log_probs_RV.gather(1, top_RK)
    numbers = (values.float().view(torch.int32) for values in (own, rank))
    packed = torch.stack([top_RK.int(), *numbers]).cpu().numpy()
    own_RK, rank_RK = packed[1:].view(np.float32).astype(np.float64)
    own_RK[np.isneginf(rank_RK)] = -np.inf
    return _Top(packed[0].astype(np.int64), own_RK, rank_RK)


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


def _extensions(
    alive: _Beams, top: _Top, config: DecodeConfig, banks_RK: np.ndarray | None = None
) -> tuple[_Chosen, list[tuple[int, int, int, float]]]:
    """The best extensions that go on, and the ends: sentence, group, beam, log probability.

    Args:
        alive: what is extended.
        top: by what.
        config: beams, groups and their diversity.
        banks_RK: of each extension; see `required.by_turns`.
    """
    sentences, width = alive.totals.shape
    shape = (sentences, width, -1)
    tokens, log_probs, changes = (a.reshape(shape) for a in (top.tokens, top.log_probs, top.ranks))
    totals = alive.totals[..., None] + changes
    size, own = config.beam // config.groups, width // config.groups
    chosen: list[_Chosen] = []
    ended: list[tuple[int, int, int, float]] = []
    for group in range(config.groups):
        # At the start all groups share the one empty hypothesis.
        beams = np.arange(own * group, own * (group + 1)) if own else np.zeros(1, np.int64)
        ranked = totals[:, beams].reshape(sentences, -1)
        if chosen:
            before = np.concatenate([one.tokens for one in chosen], axis=1)  # in this step
            here = tokens[:, beams].reshape(sentences, -1)
            ranked = ranked - config.diversity * (here[..., None] == before[:, None]).sum(axis=2)
        banks = None if banks_RK is None else banks_RK.reshape(shape)[:, beams]
        best, more = _best(ranked, tokens[:, beams], log_probs[:, beams], beams, size, banks)
        chosen.append(best)
        ended += [(b, group, beam, log_prob) for b, beam, log_prob in more]
    columns = zip(*(vars(one).values() for one in chosen), strict=True)
    return _Chosen(*(np.concatenate(column, axis=1) for column in columns)), ended


def _best(
    ranked_BC: np.ndarray,
    tokens_BMK: np.ndarray,
    log_probs_BMK: np.ndarray,
    beams: np.ndarray,
    size: int,
    banks_BMK: np.ndarray | None = None,
) -> tuple[_Chosen, list[tuple[int, int, float]]]:
    """Choose among the extensions of some beams: `size` that go on, and ends among the best."""
    sentences, width, kinds = tokens_BMK.shape
    tokens_BC, log_probs_BC = (a.reshape(sentences, -1) for a in (tokens_BMK, log_probs_BMK))
    parents_BC = np.broadcast_to(beams.repeat(kinds), tokens_BC.shape)
    # Ties are broken by beam and token, lest they depend on the batch.
    order_BC = np.lexsort((tokens_BC, parents_BC, -ranked_BC))
    if banks_BMK is not None:
        banks_BC = banks_BMK.reshape(sentences, -1)
        order_BC = by_turns(order_BC, banks_BC, np.isfinite(ranked_BC))
    # Twice as many as go on: enough even if the end mark of every beam is among them.
    order_BC = order_BC[:, : 2 * size]
    columns = (parents_BC, tokens_BC, log_probs_BC, ranked_BC)
    best = _Chosen(*(np.take_along_axis(column, order_BC, axis=1) for column in columns))
    end_BC = best.tokens == EOS
    ended = [
        (int(b), int(best.parents[b, c]), float(best.log_probs[b, c]))
        for b, c in np.argwhere(end_BC[:, :size] & np.isfinite(best.totals[:, :size]))
    ]
    found = order_BC.shape[1]
    going = min(size, found - min(width, found - 1))  # fewer if there are not so many
    going_BN = np.argsort(end_BC, axis=1, kind="stable")[:, :going]
    going_columns = (np.take_along_axis(c, going_BN, axis=1) for c in vars(best).values())
    return _Chosen(*going_columns), ended


def _extended(alive: _Beams, chosen: _Chosen) -> tuple[np.ndarray, _Beams]:
    """Rows of the parents (B, N), and the hypotheses with one more token."""
    parents = chosen.parents[..., None]
    tokens, log_probs = (
        np.concatenate([np.take_along_axis(old, parents, axis=1), new[..., None]], axis=2)
        for old, new in ((alive.tokens, chosen.tokens), (alive.log_probs, chosen.log_probs))
    )
    rows_BN = alive.width * np.arange(len(parents))[:, None] + chosen.parents
    return rows_BN, _Beams(tokens, log_probs, chosen.totals)
