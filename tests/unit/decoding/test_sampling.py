"""Samples: as likely as the language says, cut where they shall be, the same in any batch."""

import math
from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from naive_search import TableStep, random_language
from tiny import normal
from torch.utils._python_dispatch import TorchDispatchMode

from seq2seq.config import DecodeConfig
from seq2seq.data.tokenizer import EOS
from seq2seq.decoding.request import Request
from seq2seq.decoding.sampling import _least_of_nucleus, draw_tokens, truncate
from seq2seq.decoding.search import search

aten = torch.ops.aten
ROW = [0.0, 0.0, 0.2, 0.4, 0.3, 0.1]  # of the ids <pad> <s> </s> a b c


def sample(language, sources, seed=1, **changes):
    config = DecodeConfig(**{"strategy": "sample", "seed": seed, "min_length": 0, **changes})
    requests = [Request(source) for source in sources]
    return search(TableStep(language), requests, config, max_length=64)


# How often


def first_tokens(count=4000, **changes):
    """Of so many samples of a language that says one word, and then ends."""

    def language(source, words):
        return ROW if not words else [0.0, 0.0, 1.0, 0.0, 0.0, 0.0]

    [found] = sample(language, [[3]], n_best=count, **changes)
    counts = Counter(one.tokens[0] if one.tokens else EOS for one in found)
    return [counts[token] for token in range(len(ROW))]


def fits(counts, expected) -> bool:
    """Whether counts are those of probabilities: chi-square, its distribution drawn by numpy."""
    counts, expected = (np.array(row)[np.array(expected) > 0] for row in (counts, expected))
    mean = counts.sum() * expected

    def distance(drawn):
        return ((drawn - mean) ** 2 / mean).sum(axis=-1)

    draws = np.random.default_rng(0).multinomial(counts.sum(), expected, size=2000)
    return (distance(draws) >= distance(counts)).mean() > 1e-3


def test_tokens_are_as_frequent_as_they_are_likely():
    assert fits(first_tokens(), ROW)
    assert not fits(first_tokens(), [0.0, 0.0, 0.25, 0.35, 0.3, 0.1])  # the test can tell


@pytest.mark.parametrize("temperature", [0.5, 2.0])
def test_temperature_is_a_power_of_probabilities(temperature):
    powers = np.array(ROW) ** (1 / temperature)
    assert fits(first_tokens(temperature=temperature), list(powers / powers.sum()))


@pytest.mark.parametrize(
    ("cut", "left"),
    [
        ({"top_k": 2}, [3, 4]),
        ({"top_k": 9}, [2, 3, 4, 5]),
        ({"top_p": 0.39}, [3]),
        ({"top_p": 0.41}, [3, 4]),
        ({"top_p": 0.89}, [2, 3, 4]),
        ({"min_p": 0.6}, [3, 4]),
        ({"min_p": 0.01}, [2, 3, 4, 5]),
        ({"top_k": 3, "top_p": 0.5}, [3, 4]),  # 0.4 of 0.9 is not enough
        ({"min_p": 0.4, "top_k": 1}, [3]),
    ],
)
def test_what_is_cut_never_comes_and_the_rest_keeps_its_proportions(cut, left):
    kept = [probability if token in left else 0.0 for token, probability in enumerate(ROW)]
    counts = first_tokens(1500, **cut)
    assert [token for token, count in enumerate(counts) if count] == left
    assert fits(counts, [probability / sum(kept) for probability in kept])


def test_whole_outputs_are_as_frequent_as_they_are_likely():
    language = random_language(5, 3)
    [found] = sample(language, [[4]], n_best=3000, max_ratio=0, max_extra=3)
    counts = Counter((tuple(one.tokens), one.finished) for one in found)
    assert len(counts) == 1 + 2 + 4 + 8  # all there are
    expected = []
    for tokens, finished in counts:
        output = [*tokens, EOS] if finished else tokens
        rows = [language((4,), tuple(output[:i])) for i in range(len(output))]
        # Padding and the start mark are no outputs: what they have goes to the others.
        shares = [row[token] / sum(row[2:]) for row, token in zip(rows, output, strict=True)]
        expected.append(math.prod(shares))
    assert sum(expected) == pytest.approx(1)
    assert fits(list(counts.values()), expected)


# Cuts against loops


def cut_by_hand(row, min_p, top_k, top_p):
    least = min_p * max(row)
    row = [p if p >= least else 0.0 for p in row]
    if top_k:
        least = sorted(row)[-min(top_k, len(row))]
        row = [p if p >= least else 0.0 for p in row]
    if top_p < 1:
        kept, together = [], 0.0
        for p in sorted(row, reverse=True):
            if together < top_p * sum(row):
                kept.append(p)
            together += p
        least = min(kept)
        row = [p if p >= least else 0.0 for p in row]
    return row


@settings(max_examples=80, deadline=None)
@given(
    weights=st.lists(st.integers(1, 50), min_size=2, max_size=9, unique=True),
    min_p=st.sampled_from([0.0, 0.13, 0.4]),
    top_k=st.integers(0, 10),
    top_p=st.sampled_from([0.21, 0.53, 0.87, 1.0]),
)
def test_cuts_are_those_of_loops(weights, min_p, top_k, top_p):
    row = [weight / sum(weights) for weight in weights]
    config = DecodeConfig(min_p=min_p, top_k=top_k, top_p=top_p)
    found = truncate(torch.tensor([row, row[::-1]], dtype=torch.double), config)
    expected = cut_by_hand(row, min_p, top_k, top_p)
    assert found[0].tolist() == pytest.approx(expected)
    assert found[1].tolist() == pytest.approx(expected[::-1])
    assert sum(expected) > 0


def test_cuts_of_a_large_vocabulary_are_those_of_loops():
    flat, steep = (torch.softmax(torch.randn(3000) * scale, 0) for scale in (0.3, 3.0))
    for rows in ([steep, steep], [flat, steep]):  # few tokens are enough, and most of them
        found = truncate(torch.stack(rows).double(), DecodeConfig(top_p=0.9))
        for row, one in zip(rows, found, strict=True):
            assert one.tolist() == pytest.approx(cut_by_hand(row.tolist(), 0, 0, 0.9))


@given(
    weights=st.lists(st.integers(0, 9), min_size=1, max_size=8).filter(any),
    uniform=st.floats(0, 1, exclude_max=True),
)
def test_a_draw_is_where_the_sum_passes_it(weights, uniform):
    row = torch.tensor([weights], dtype=torch.double)
    token = draw_tokens(row, torch.tensor([[0.5, uniform]], dtype=torch.double)).item()
    assert weights[token] > 0
    assert sum(weights[:token]) <= uniform * sum(weights) + 1e-9
    assert uniform * sum(weights) <= sum(weights[: token + 1]) + 1e-9


@pytest.mark.parametrize("size", [63, 64, 65, 200])
def test_draws_from_many_tokens_are_as_frequent_as_they_are_likely(size):
    draw = np.random.default_rng(size)
    row = draw.dirichlet(np.full(size, 0.3))
    row = np.where(row * 5000 < 5, 0, row)
    row /= row.sum()
    uniforms = torch.from_numpy(draw.random((5000, 2)))
    tokens = draw_tokens(torch.from_numpy(row).float().expand(5000, -1), uniforms)
    assert fits(np.bincount(tokens.numpy(), minlength=size), row)
    assert set(tokens.tolist()) == set(np.flatnonzero(row).tolist())


def test_the_largest_numbers_draw_possible_tokens():
    almost_one = torch.full((1, 2), 1 - 2**-53, dtype=torch.double)
    for last in (0, 63, 64, 99):
        row = torch.zeros(1, 130)
        row[0, : last + 1] = 1e-3
        assert draw_tokens(row, almost_one).item() == last


# What samples depend on


def texts(found):
    return [[(one.tokens, one.finished) for one in own] for own in found]


def test_a_sentence_has_the_same_samples_in_any_batch_and_order():
    language = random_language(8, 1)
    sources = [[3] * (i % 4) + [4 + i % 4] for i in range(12)]
    alone = [sample(language, [source], n_best=4)[0] for source in sources]
    for batch_tokens in (1, 50, 4096):
        together = sample(language, sources[::-1], n_best=4, batch_tokens=batch_tokens)[::-1]
        assert texts(together) == texts(alone)


def test_other_seeds_sources_and_numbers_give_other_samples():
    def language(source, words):  # which says the same of every source
        return [0.0, 0.0, 0.1, *[0.9 / 60] * 60]

    [one], [other] = (sample(language, [[3, 4]], seed=seed, n_best=8) for seed in (1, 2))
    [source] = sample(language, [[3, 5]], n_best=8)
    [again] = sample(language, [[3, 4]], n_best=8)
    assert texts([one]) == texts([again])
    assert texts([one]) != texts([other])
    assert texts([one]) != texts([source])
    assert len({tuple(sample.tokens) for sample in one}) >= 7


def test_more_samples_leave_the_first_ones_as_they_are():
    language = random_language(8, 1)
    few, many = (sample(language, [[3, 4]], n_best=n)[0] for n in (3, 20))
    assert Counter(map(str, few)) <= Counter(map(str, many))


def test_samples_come_best_first_and_their_scores_are_the_languages():
    language = random_language(6, 4)
    found = sample(language, [[3], [4, 5]], n_best=9, temperature=1.7, top_p=0.9)
    for source, own in zip(([3], [4, 5]), found, strict=True):
        assert len(own) == 9
        assert [one.score for one in own] == sorted((one.score for one in own), reverse=True)
        for one in own:
            output = [*one.tokens, EOS] if one.finished else one.tokens
            rows = [language(tuple(source), tuple(output[:i])) for i in range(len(output))]
            expected = sum(math.log(r[t]) for r, t in zip(rows, output, strict=True))
            assert one.log_prob == pytest.approx(expected, abs=1e-5)


class Waits(TorchDispatchMode):
    """Counts what makes a program wait for a GPU: a number, or a number of rows, that it asks for.

    On a CPU, too, where it costs nothing.
    """

    count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.count += func.overloadpacket in (aten._local_scalar_dense, aten.nonzero)
        return func(*args, **(kwargs or {}))


def test_among_all_tokens_the_nucleus_is_found_without_waiting():
    """As on a GPU."""
    probs_RV = torch.softmax(normal(0, 6, 300), dim=1)  # flat: more than 64 tokens are needed
    with Waits() as waits:
        found = _least_of_nucleus(probs_RV, 0.9, count=300)
    assert waits.count == 0
    with Waits() as waits:
        assert found.equal(_least_of_nucleus(probs_RV, 0.9))
    assert waits.count > 0  # else nothing was counted


def test_a_draw_of_zero_gives_a_possible_token():
    probs_RV = torch.zeros(1, 130)
    probs_RV[0, 70] = 1
    assert draw_tokens(probs_RV, torch.zeros(1, 2)).item() == 70
