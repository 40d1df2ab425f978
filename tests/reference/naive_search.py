"""Searches written so that they are obviously right, and step models to search.

A language is given as `Probabilities`: for a source and the words so far (tuples of ids), the
probability of each id being next. The searches here work on one sentence and such a function;
`TableStep` shows the same function to `seq2seq.decoding`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from seq2seq.data.tokenizer import BOS, EOS, PAD
from seq2seq.model.translation_model import TranslationModel

Words = tuple[int, ...]
Probabilities = Callable[[Words, Words], list[float]]


@dataclass(frozen=True)
class Output:
    """What a search by hand found; the fields mean those of `seq2seq.decoding.Hypothesis`."""

    tokens: Words
    log_prob: float
    finished: bool

    def score(self, penalty: float) -> float:
        return self.log_prob / (len(self.tokens) + self.finished) ** penalty


def random_language(vocabulary: int, seed: int, sharpness: float = 1.0) -> Probabilities:
    """A language whose every probability is drawn at random, once for all.

    The input-only marks get probability too, as in a transformer, but may never be output.
    """

    def probabilities(source: Words, words: Words) -> list[float]:
        draw = np.random.default_rng([seed, len(source), *source, len(words), *words])
        logits = sharpness * draw.normal(size=vocabulary)
        exponentials = np.exp(logits)
        return list(exponentials / exponentials.sum())

    return probabilities


def log(probability: float) -> float:
    return -math.inf if probability == 0 else math.log(probability)


def all_outputs(language: Probabilities, source: Words, limit: int) -> list[Output]:
    """Every finished output of at most `limit` tokens, end mark included."""
    outputs = []
    unfinished: list[tuple[Words, float]] = [((), 0.0)]
    for _ in range(limit):
        longer = []
        for words, log_prob in unfinished:
            for token, probability in enumerate(language(source, words)):
                if token == EOS:
                    outputs.append(Output(words, log_prob + log(probability), True))
                elif token not in (PAD, BOS):
                    longer.append(((*words, token), log_prob + log(probability)))
        unfinished = longer
    return outputs


def greedy_by_hand(language: Probabilities, source: Words, limit: int) -> Output:
    """Take the likeliest token until it is the end mark or the limit is reached."""
    words: Words = ()
    log_prob = 0.0
    while len(words) < limit:
        row = language(source, words)
        token = max((t for t in range(len(row)) if t not in (PAD, BOS)), key=lambda t: row[t])
        log_prob += log(row[token])
        if token == EOS:
            return Output(words, log_prob, True)
        words = (*words, token)
    return Output(words, log_prob, False)


def beam_by_lists(
    language: Probabilities, source: Words, limit: int, beam: int, penalty: float
) -> list[Output]:
    """All results of fairseq's beam search, best first.

    It stops at `beam` results or at the limit, and knows no other reason to stop early.
    """
    results: list[Output] = []
    alive: list[tuple[Words, float]] = [((), 0.0)]
    for _ in range(limit):
        extensions = [
            (words, token, log_prob + log(probability))
            for words, log_prob in alive
            for token, probability in enumerate(language(source, words))
            if token not in (PAD, BOS)
        ]
        extensions.sort(key=lambda extension: -extension[2])
        results += [Output(w, p, True) for w, token, p in extensions[:beam] if token == EOS]
        alive = [((*w, token), p) for w, token, p in extensions if token != EOS][:beam]
        if len(results) >= beam:
            break
    results = results or [Output(*alive[0], False)]
    return sorted(results, key=lambda result: -result.score(penalty))


@dataclass
class TableState:
    """Sources and, for each hypothesis, its words; hypotheses of a sentence are neighbours."""

    sources: list[Words]
    hypotheses: list[Words]

    def reorder(self, rows: Tensor) -> None:
        self.hypotheses = [self.hypotheses[row] for row in rows.tolist()]

    def keep(self, sentences: Tensor, rows: Tensor) -> None:
        self.sources = [self.sources[sentence] for sentence in sentences.tolist()]
        self.reorder(rows)


class TableStep:
    """A language as a step model."""

    def __init__(self, language: Probabilities):
        self.language = language

    def start(self, source_BS: Tensor) -> TableState:
        sources = [tuple(i for i in row if i not in (PAD, EOS)) for row in source_BS.tolist()]
        return TableState(sources, [() for _ in sources])

    def step(self, tokens_R: Tensor, state: TableState) -> Tensor:
        state.hypotheses = [
            (*words, token)
            for words, token in zip(state.hypotheses, tokens_R.tolist(), strict=True)
        ]
        beams = len(state.hypotheses) // len(state.sources)
        rows = []
        for r, (start, *words) in enumerate(state.hypotheses):
            assert start == BOS
            row = self.language(state.sources[r // beams], tuple(words))
            rows.append([log(probability) for probability in row])
        return torch.tensor(rows)


@dataclass
class RerunState:
    sources: Tensor  # (B, S)
    hypotheses: Tensor  # (R, T)

    def reorder(self, rows: Tensor) -> None:
        self.hypotheses = self.hypotheses[rows]

    def keep(self, sentences: Tensor, rows: Tensor) -> None:
        self.sources = self.sources[sentences]
        self.reorder(rows)


class RerunStep:
    """A model as a step model without memory: it reads all again for every token."""

    def __init__(self, model: TranslationModel):
        self.model = model

    def start(self, source_BS: Tensor) -> RerunState:
        return RerunState(source_BS, source_BS.new_empty(len(source_BS), 0))

    def step(self, tokens_R: Tensor, state: RerunState) -> Tensor:
        state.hypotheses = torch.cat([state.hypotheses, tokens_R[:, None]], dim=1)
        beams = len(state.hypotheses) // len(state.sources)
        source_RS = state.sources.repeat_interleave(beams, dim=0)
        hidden_RTD = self.model(source_RS, source_RS != PAD, state.hypotheses)
        return torch.log_softmax(self.model.project(hidden_RTD[:, -1]), dim=-1)


def forced_log_prob(model: TranslationModel, source: list[int], output: list[int]) -> float:
    """Log probability of output ids (give the end mark if there is one), in one pass."""
    source_BS = torch.tensor([[*source, EOS]])
    target_BT = torch.tensor([[BOS, *output[:-1]]])
    hidden_BTD = model(source_BS, source_BS != PAD, target_BT)
    log_probs_TV = torch.log_softmax(model.project(hidden_BTD[0]), dim=-1)
    return sum(log_probs_TV[t, token].item() for t, token in enumerate(output))
