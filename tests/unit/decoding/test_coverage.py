"""The coverage penalty, against loops, and the search that ranks by it."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny import random_ids, restless_transformer

from seq2seq.config import DecodeConfig
from seq2seq.data.tokenizer import EOS
from seq2seq.decoding.hypothesis import Hypothesis, coverage_penalty, ranked_by_coverage
from seq2seq.decoding.request import Request
from seq2seq.inference.torch_engine import TorchEngine

SOURCES = [random_ids(seed, 2 + seed % 5).tolist() for seed in range(12)]


def penalty_by_loops(weights_ts) -> float:
    """Equation 14 of Wu et al. 2016."""
    total = 0.0
    for s in range(len(weights_ts[0]) - 1):
        total += math.log(min(sum(row[s] for row in weights_ts), 1.0))
    return total


def random_weights(seed: int, rows: int, columns: int) -> np.ndarray:
    return np.random.default_rng(seed).dirichlet(np.full(columns, 0.3), size=rows)


@given(st.integers(0, 99), st.integers(1, 7), st.integers(1, 7))
@settings(max_examples=60, deadline=None)
def test_the_penalty_is_that_of_the_loops(seed, rows, columns):
    weights = random_weights(seed, rows, columns).clip(1e-12)
    assert coverage_penalty(weights) == pytest.approx(penalty_by_loops(weights.tolist()))


def test_what_is_covered_costs_nothing_and_what_is_not_is_finite():
    assert coverage_penalty(np.eye(4)) == 0
    assert coverage_penalty(np.array([[1.0, 0.0, 0.0]] * 3)) == pytest.approx(
        math.log(np.finfo(float).tiny)
    )


@given(st.integers(0, 99))
@settings(max_examples=30, deadline=None)
def test_a_heavier_penalty_never_chooses_worse_coverage(seed):
    scores = np.random.default_rng(seed).normal(size=5)
    found = [Hypothesis([n], score, score, True) for n, score in enumerate(scores)]
    weights = [random_weights(seed + n, 4, 5) for n in range(5)]
    chosen = []
    for beta in (0.01, 0.1, 0.3, 1.0, 10.0):
        config = DecodeConfig(coverage=beta, n_best=5)
        ranked = ranked_by_coverage(found, weights, config)
        assert sorted(one.tokens for one in ranked) == [[0], [1], [2], [3], [4]]
        assert [one.score for one in ranked] == sorted((one.score for one in ranked), reverse=True)
        chosen.append(coverage_penalty(weights[ranked[0].tokens[0]]))
    assert chosen == sorted(chosen)


@pytest.mark.parametrize("groups", [1, 2])
def test_a_search_ranks_all_that_ended_by_score_and_coverage(groups):
    engine = TorchEngine([restless_transformer()])
    requests = [Request(source) for source in SOURCES]
    # A penalty of next to nothing: all that ends, in the order of its score alone.
    every = engine.search(requests, DecodeConfig(beam=6, n_best=6, groups=groups, coverage=1e-12))
    config = DecodeConfig(beam=6, n_best=2, groups=groups, coverage=0.7)
    changed = 0
    for request, candidates, found in zip(
        requests, every, engine.search(requests, config), strict=True
    ):
        weights = engine.attention([(request.source, one.tokens) for one in candidates])
        expected = {
            tuple(one.tokens): one.score + 0.7 * penalty_by_loops(w.tolist())
            for one, w in zip(candidates, weights, strict=True)
        }
        best = sorted(expected, key=lambda tokens: -expected[tokens])[:2]
        assert [tuple(one.tokens) for one in found] == best
        for one in found:
            assert one.score == pytest.approx(expected[tuple(one.tokens)], abs=1e-5)
            assert one.log_prob == pytest.approx(sum(one.token_log_probs))
        changed += best[0] != tuple(candidates[0].tokens)
    assert changed  # else the penalty was for nothing


def test_what_the_limit_cuts_off_has_a_coverage_too():
    model = restless_transformer()
    with torch.no_grad():  # it never ends
        model.decoder_norm.bias.fill_(1.0)
        model.output.weight[EOS] -= 5
    config = DecodeConfig(beam=2, coverage=0.5, max_ratio=99.0)
    [[one]] = TorchEngine([model]).search([Request(SOURCES[3])], config)
    assert not one.finished
    assert len(one.tokens) == 48  # as many as the model reads
    assert one.score <= one.log_prob / 48
