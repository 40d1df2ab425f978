"""Links by counting, against expectation maximisation in dictionaries."""

from __future__ import annotations

import math
from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seq2seq.data.word_links import ROUNDS
from seq2seq.inference.head_selection import TENSION, ibm1_links, likeliest_sources

IDS = st.lists(st.integers(3, 9), min_size=1, max_size=5)


def prior(t: int, s: int, rows: int, columns: int) -> float:
    return math.exp(-TENSION * abs(t / rows - s / columns))


def model_1_by_loops(sources, targets) -> list[list[list[float]]]:
    """For each target token p(target | source) x prior of each source place."""
    probability = defaultdict(lambda: 1.0)
    for _ in range(ROUNDS):
        counts, totals = defaultdict(float), defaultdict(float)
        for source, target in zip(sources, targets, strict=True):
            for t, french in enumerate(target):
                shares = [
                    probability[english, french] * prior(t, s, len(target), len(source))
                    for s, english in enumerate(source)
                ]
                for english, share in zip(source, shares, strict=True):
                    counts[english, french] += share / sum(shares)
                    totals[english] += share / sum(shares)
        probability = defaultdict(
            float, {pair: count / totals[pair[0]] for pair, count in counts.items()}
        )
    return [
        [
            [
                probability[english, french] * prior(t, s, len(target), len(source))
                for s, english in enumerate(source)
            ]
            for t, french in enumerate(target)
        ]
        for source, target in zip(sources, targets, strict=True)
    ]


@given(st.lists(st.tuples(IDS, IDS), min_size=1, max_size=6))
@settings(max_examples=80, deadline=None)
def test_counts_are_those_of_the_loops(pairs):
    sources, targets = zip(*pairs, strict=True)
    found = likeliest_sources(sources, targets)
    expected = model_1_by_loops(sources, targets)
    for best, by_loops in zip(found, expected, strict=True):
        for s, likely in zip(best, by_loops, strict=True):
            assert likely[s] == pytest.approx(max(likely), rel=1e-9)  # ties are decided by rounding


def test_words_are_found_when_neighbours_change_places():
    rng = np.random.default_rng(0)
    sources = [rng.permutation(12)[: rng.integers(2, 9)].tolist() for _ in range(300)]
    targets = []
    for source in sources:
        order = sorted(range(len(source)), key=lambda place: place ^ 1)
        targets.append([source[place] + 50 for place in order])
    links = ibm1_links(sources, targets)
    right = total = 0
    for source, target, found in zip(sources, targets, links, strict=True):
        right += sum(source[s] + 50 == target[t] for s, t in found)
        total += len(source)
        assert len({t for _, t in found}) == len({s for s, _ in found}) == len(found)
    assert right > 0.99 * sum(map(len, links))
    assert right > 0.95 * total
