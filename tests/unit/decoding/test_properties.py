"""What is true of every strategy, whatever the model says."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from naive_search import RerunStep, TableStep, all_outputs, random_language
from tiny import random_ids, restless_transformer, tiny_recurrent

from seq2seq.config import DecodeConfig
from seq2seq.data.collate import collate_source
from seq2seq.data.tokenizer import PAD
from seq2seq.decoding.beam import beam_search
from seq2seq.decoding.constraints import ForcedPrefix, NoRepeatNgram
from seq2seq.decoding.greedy import greedy_search
from seq2seq.decoding.request import Request
from seq2seq.decoding.search import search
from seq2seq.decoding.step import ModelStep

STRATEGIES = {
    "greedy": {"beam": 1},
    "beam": {"beam": 4, "n_best": 4},
    "gnmt": {"beam": 3, "length_norm": "gnmt", "length_penalty": 0.6},
    "sample": {"strategy": "sample", "n_best": 3, "top_p": 0.9},
    "rules": {"beam": 3, "no_repeat_ngram": 2, "repetition_penalty": 1.3, "min_ratio": 0.5},
}
ASKED = [{}, {"prefix": [4, 5]}, {"banned": [[3], [6, 7]]}]
REQUESTS = [Request(random_ids(i, i % 7).tolist(), **ASKED[i % 3]) for i in range(12)]
strategies = pytest.mark.parametrize("strategy", STRATEGIES)
models = pytest.mark.parametrize("make", [restless_transformer, tiny_recurrent])


def run(step, strategy, requests=REQUESTS, **changes):
    config = DecodeConfig(**{**STRATEGIES[strategy], **changes})
    return search(step, requests, config, max_length=24)


def assert_same(found, expected):
    for own, others in zip(found, expected, strict=True):
        assert [one.tokens for one in own] == [one.tokens for one in others]
        assert [one.finished for one in own] == [one.finished for one in others]
        for one, other in zip(own, others, strict=True):
            assert one.token_log_probs == pytest.approx(other.token_log_probs, abs=1e-5)


@models
@strategies
def test_a_sentence_is_translated_alike_alone_and_in_any_batch(strategy, make):
    step = ModelStep(make())
    alone = [run(step, strategy, [request])[0] for request in REQUESTS]
    assert len({tuple(own[0].tokens) for own in alone}) > 4
    for seed, batch_tokens in ((0, 4096), (1, 150), (2, 60)):
        order = torch.randperm(12, generator=torch.Generator().manual_seed(seed)).tolist()
        together = run(step, strategy, [REQUESTS[i] for i in order], batch_tokens=batch_tokens)
        assert_same(together, [alone[i] for i in order])


@models
@strategies
def test_the_cache_changes_nothing(strategy, make):
    model = make()
    assert_same(run(ModelStep(model), strategy), run(RerunStep(model), strategy))


class Padded:
    """A step model whose sources have more padding than they need."""

    def __init__(self, step):
        self.inner, self.step = step, step.step

    def start(self, source_BS):
        return self.inner.start(torch.nn.functional.pad(source_BS, (0, 5), value=PAD))


@models
@strategies
def test_more_padding_changes_nothing(strategy, make):
    step = ModelStep(make())
    assert_same(run(Padded(step), strategy), run(step, strategy))


@settings(max_examples=25, deadline=None)
@given(
    sources=st.lists(st.lists(st.integers(3, 12), max_size=6), min_size=1, max_size=6),
    seed=st.integers(0, 999),
    asked=st.sampled_from(ASKED[:2]),
)
def test_a_beam_of_one_is_greedy_under_rules_too(sources, seed, asked):
    config = DecodeConfig(beam=1, min_length=0)
    prefixes = [asked.get("prefix", [])] * len(sources)
    rules = [ForcedPrefix(prefixes), NoRepeatNgram(2)]
    arguments = (collate_source(sources), [7] * len(sources), config, rules)
    step = TableStep(random_language(8, seed))
    assert_same(beam_search(step, *arguments), greedy_search(step, *arguments))


@models
def test_samples_of_the_likeliest_token_are_greedy(make):
    step = ModelStep(make())
    greedy = run(step, "greedy")
    found = search(step, REQUESTS, DecodeConfig(strategy="sample", top_k=1), max_length=24)
    assert_same(found, greedy)
    assert len({tuple(own[0].tokens) for own in greedy}) > 4


@models
def test_a_beam_of_one_is_greedy_for_a_network(make):
    """Without rules beside those that every search has."""
    model = ModelStep(make())
    sources = [request.source for request in REQUESTS]
    arguments = (collate_source([list(s) for s in sources]), [20] * 12, DecodeConfig(beam=1))
    with torch.inference_mode():
        assert_same(beam_search(model, *arguments), greedy_search(model, *arguments))


def undecided(source, words):
    """Likes all words alike."""
    return [0.0, 0.0, 0.25, 0.25, 0.25, 0.25]


@pytest.mark.parametrize("strategy", ["greedy", "beam", "rules"])
def test_ties_go_to_the_first_token_in_any_batch(strategy):
    requests = [Request([3] * (i % 3)) for i in range(7)]
    together = run(TableStep(undecided), strategy, requests)
    for request, own in zip(requests, together, strict=True):
        assert_same([own], run(TableStep(undecided), strategy, [request]))
        assert own[0].tokens == together[requests.index(request)][0].tokens
    if strategy == "greedy":  # 3 is the first word, and the end mark comes before all words
        assert all(own[0].tokens == [3] for own in together)


@pytest.mark.parametrize("strategy", ["greedy", "beam", "gnmt", "rules"])
def test_what_is_no_number_in_one_sentence_changes_no_other(strategy):
    language = random_language(8, 1)

    def broken(source, words):
        return [float("nan")] * 8 if len(source) == 2 and words else language(source, words)

    requests = [Request([3] * i) for i in range(5)]
    found = run(TableStep(broken), strategy, requests)
    expected = run(TableStep(language), strategy, requests)
    for i in (0, 1, 3, 4):
        assert_same([found[i]], [expected[i]])
    assert found[2]


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 999), source=st.lists(st.integers(3, 9), max_size=3))
def test_no_beam_passes_one_as_large_as_the_space_and_larger_ones_equal_it(seed, source):
    language, limit = random_language(5, seed, 1.5), 4

    def best(beam):
        config = DecodeConfig(
            beam=beam, length_norm="none", max_ratio=0, max_extra=limit, min_length=0
        )
        [[found, *_]] = search(TableStep(language), [Request(source)], config, max_length=64)
        return found.score if found.finished else float("-inf")

    space = max(one.log_prob for one in all_outputs(language, tuple(source), limit))
    for beam in (1, 2, 3, 5, 8):
        assert best(beam) <= space + 1e-6
    for beam in (40, 41, 80):
        assert best(beam) == pytest.approx(space, abs=1e-6)
