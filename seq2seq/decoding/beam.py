"""Beam search: keep the N likeliest unfinished hypotheses of each sentence.

Shapes: B unfinished sentences, M beams they have now (1 at the start, then N), V vocabulary,
C candidates. Rows of the model are sentence-major: row b * M + m is beam m of sentence b.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from seq2seq.config import DecodeConfig
from seq2seq.data.tokenizer import BOS, EOS
from seq2seq.decoding.hypothesis import Hypothesis
from seq2seq.decoding.lengths import banned_tokens, best_possible, normalised
from seq2seq.decoding.step import State, StepModel


@dataclass
class _Candidates:
    """The best one-token extensions of each sentence's beams, best first; all (B, C)."""

    log_probs: Tensor
    parents: Tensor  # beam that is extended
    tokens: Tensor


@dataclass
class _Sentence:
    """What is known of one sentence while its search goes on."""

    index: int  # place among the sources
    limit: int  # output limit in tokens, end mark included
    results: list[Hypothesis] = field(default_factory=list)

    def add(self, tokens: list[int], log_prob: float, penalty: float, finished: bool) -> None:
        score = normalised(log_prob, len(tokens) + finished, penalty)
        self.results.append(Hypothesis(tokens, log_prob, score, finished))

    def done(self, length: int, best_alive: float, config: DecodeConfig) -> bool:
        """Whether to stop: at the limit, with N results, or when nothing better can come."""
        if length >= self.limit or len(self.results) >= config.beam:
            return True
        if len(self.results) < config.n_best:
            return False
        needed = sorted((result.score for result in self.results), reverse=True)
        bound = best_possible(best_alive, self.limit, config.length_penalty)
        return needed[config.n_best - 1] >= bound


def beam_search(
    model: StepModel[State], source_BS: Tensor, limits: Sequence[int], config: DecodeConfig
) -> list[list[Hypothesis]]:
    """Up to `config.n_best` hypotheses for each source (B, S), best first.

    As in fairseq, an end mark counts only among the N best candidates of a step, and a
    sentence is done once N hypotheses have ended, or earlier when a bound on all
    continuations (see `lengths.best_possible`) shows that the results are final.
    """
    sentences = [_Sentence(index, limit) for index, limit in enumerate(limits)]
    results: list[list[Hypothesis]] = [[] for _ in limits]
    state = model.start(source_BS)
    totals_BM = torch.zeros(len(sentences), 1, device=source_BS.device)
    history_BML = source_BS.new_empty(len(sentences), 1, 0)
    tokens_R = source_BS.new_full((len(sentences),), BOS)
    while sentences:
        beams = totals_BM.size(1)
        log_probs_RV = model.step(tokens_R, state)
        log_probs_RV[:, banned_tokens(history_BML.size(2), config)] = -torch.inf
        candidates = _expand(log_probs_RV, totals_BM, config.beam)
        _collect_finished(candidates, history_BML, sentences, config)
        alive = _continue(candidates, beams, config.beam)
        parents_BN, totals_BM = alive.parents, alive.log_probs
        past_BNL = history_BML.gather(1, parents_BN[..., None].expand(-1, -1, history_BML.size(2)))
        history_BML = torch.cat([past_BNL, alive.tokens[..., None]], dim=2)

        kept = _close_done(sentences, results, totals_BM, history_BML, config)
        first_row_B1 = beams * torch.arange(len(parents_BN), device=parents_BN.device)[:, None]
        rows_BN = first_row_B1 + parents_BN
        if len(kept) < len(sentences):
            sentences = [sentences[b] for b in kept]
            index = torch.tensor(kept, dtype=torch.long, device=rows_BN.device)
            totals_BM, history_BML = totals_BM[index], history_BML[index]
            state.select(index, rows_BN[index].flatten())
        else:
            state.reorder(rows_BN.flatten())
        tokens_R = history_BML[..., -1].flatten()
    return results


def _expand(log_probs_RV: Tensor, totals_BM: Tensor, beam: int) -> _Candidates:
    """The 2N best extensions: enough that N go on even if every beam's end mark is among them."""
    vocabulary = log_probs_RV.size(1)
    totals_BC = (totals_BM.flatten()[:, None] + log_probs_RV).view(len(totals_BM), -1)
    best = totals_BC.topk(min(2 * beam, totals_BC.size(1)), dim=1)
    return _Candidates(best.values, best.indices // vocabulary, best.indices % vocabulary)


def _collect_finished(
    candidates: _Candidates, history_BML: Tensor, sentences: list[_Sentence], config: DecodeConfig
) -> None:
    """Store the end marks among the N best candidates as results."""
    first = slice(0, config.beam)
    ended_BN = (candidates.tokens[:, first] == EOS) & candidates.log_probs[:, first].isfinite()
    for b, c in ended_BN.nonzero().tolist():
        tokens = history_BML[b, candidates.parents[b, c]].tolist()
        sentences[b].add(tokens, candidates.log_probs[b, c].item(), config.length_penalty, True)


def _continue(candidates: _Candidates, beams: int, beam: int) -> _Candidates:
    """The N best candidates that go on, still best first; fewer if there are not so many."""
    width = candidates.tokens.size(1)
    ended_BC = (candidates.tokens == EOS).long()
    rank_BC = torch.arange(width, device=ended_BC.device) + width * ended_BC
    going_BN = rank_BC.argsort(dim=1)[:, : min(beam, width - min(beams, width - 1))]
    return _Candidates(*(column.gather(1, going_BN) for column in vars(candidates).values()))


def _close_done(
    sentences: list[_Sentence],
    results: list[list[Hypothesis]],
    totals_BN: Tensor,
    history_BNL: Tensor,
    config: DecodeConfig,
) -> list[int]:
    """Hand over the results of sentences that are done; return the others' places."""
    length = history_BNL.size(2)
    kept = []
    best_totals = totals_BN[:, 0].tolist()
    for b, (sentence, best_alive) in enumerate(zip(sentences, best_totals, strict=True)):
        if not sentence.done(length, best_alive, config):
            kept.append(b)
            continue
        if not sentence.results:  # cut off by the limit: better than nothing, and marked so
            sentence.add(history_BNL[b, 0].tolist(), best_alive, config.length_penalty, False)
        sentence.results.sort(key=lambda result: -result.score)
        results[sentence.index] = sentence.results[: config.n_best]
    return kept
