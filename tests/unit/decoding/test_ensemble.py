"""Several models as one, and how likely models find given translations."""

import math

import numpy as np
import pytest
import torch
from naive_search import TableStep, forced_log_prob, random_language
from tiny import random_ids, restless_transformer, tiny_recurrent, tiny_transformer

from seq2seq.config import DecodeConfig
from seq2seq.data.collate import collate_source
from seq2seq.data.tokenizer import BOS, EOS
from seq2seq.decoding.forced import forced_log_probs
from seq2seq.decoding.request import Request
from seq2seq.decoding.search import search
from seq2seq.decoding.step import Ensemble, ModelStep

PAIRS = [
    (random_ids(i, i % 6).tolist(), random_ids(50 + i, (3 * i) % 7).tolist()) for i in range(9)
]
STRATEGIES = [
    {"beam": 1},
    {"beam": 4, "n_best": 4},
    {"strategy": "sample", "n_best": 3, "temperature": 1.5, "top_k": 4},
    {"beam": 3, "n_best": 3, "length_norm": "gnmt", "repetition_penalty": 1.5},
    {"beam": 1, "no_repeat_ngram": 2, "min_length": 4, "length_norm": "none"},
]


@pytest.fixture(autouse=True, scope="module")
def _no_gradients():
    with torch.inference_mode():
        yield


# Forced decoding


@pytest.mark.parametrize("make", [restless_transformer, tiny_recurrent])
@pytest.mark.parametrize("batch_tokens", [1, 40, 8192])
def test_pairs_are_scored_one_by_one_as_in_one_pass_each(make, batch_tokens, monkeypatch):
    monkeypatch.setattr("seq2seq.decoding.forced.BATCH_TOKENS", batch_tokens)
    model = make()
    scores = forced_log_probs([model], PAIRS)
    assert [len(one) for one in scores] == [len(target) + 1 for _, target in PAIRS]
    for (source, target), found in zip(PAIRS, scores, strict=True):
        assert sum(found) == pytest.approx(forced_log_prob(model, source, [*target, EOS]), abs=1e-4)


def test_no_pairs_have_no_scores():
    assert forced_log_probs([tiny_transformer()], []) == []


REQUESTS = [
    Request(random_ids(0, 4).tolist()),
    Request(random_ids(1, 2).tolist(), prefix=[4, 5]),
    Request(random_ids(2, 5).tolist(), banned=[[3], [6, 7]]),
]


@pytest.mark.parametrize("settings", STRATEGIES, ids=str)
@pytest.mark.parametrize("kind", ["transformer", "recurrent", "ensemble"])
def test_the_score_of_a_search_is_the_forced_score_of_its_output(kind, settings):
    models = {
        "transformer": [restless_transformer()],
        "recurrent": [tiny_recurrent(2)],
        "ensemble": [restless_transformer(3), restless_transformer(5), tiny_recurrent(2)],
    }[kind]
    steps = [ModelStep(model) for model in models]
    step = steps[0] if len(steps) == 1 else Ensemble(steps)
    results = search(step, REQUESTS, DecodeConfig(**settings), max_length=30)
    for request, found in zip(REQUESTS, results, strict=True):
        assert found
        for one in found:
            [forced] = forced_log_probs(models, [(request.source, one.tokens)])
            forced = forced if one.finished else forced[:-1]
            assert one.token_log_probs == pytest.approx(forced, abs=1e-5)
            assert one.log_prob == pytest.approx(sum(forced), abs=1e-4)


# Ensembles


def test_an_ensemble_gives_the_mean_of_probabilities():
    languages = [random_language(6, seed, 2.0) for seed in range(3)]
    ensemble = Ensemble([TableStep(language) for language in languages])
    state = ensemble.start(collate_source([[3, 4], [5]]))
    found = ensemble.step(torch.tensor([BOS, BOS]), state).exp()
    for row, source in zip(found.tolist(), ((3, 4), (5,)), strict=True):
        expected = np.mean([language(source, ()) for language in languages], axis=0)
        assert row == pytest.approx(list(expected), abs=1e-6)


@pytest.mark.parametrize("settings", STRATEGIES[:4], ids=str)
def test_an_ensemble_is_searched_as_the_language_of_the_mean(settings):
    languages = [random_language(7, seed, 2.0) for seed in range(2)]

    def mean(source, words):
        return list(np.mean([language(source, words) for language in languages], axis=0))

    requests = [Request([3] * i) for i in range(6)]
    ensemble = Ensemble([TableStep(language) for language in languages])
    found, expected = (
        search(step, requests, DecodeConfig(**settings), max_length=20)
        for step in (ensemble, TableStep(mean))
    )
    for own, others in zip(found, expected, strict=True):
        assert [one.tokens for one in own] == [one.tokens for one in others]
        for one, other in zip(own, others, strict=True):
            assert one.log_prob == pytest.approx(other.log_prob, abs=1e-5)


def test_models_are_forced_by_the_mean_of_probabilities():
    models = [restless_transformer(3), tiny_recurrent(2)]
    each = [forced_log_probs([model], PAIRS) for model in models]
    for i, found in enumerate(forced_log_probs(models, PAIRS)):
        expected = [
            math.log((math.exp(a) + math.exp(b)) / 2)
            for a, b in zip(each[0][i], each[1][i], strict=True)
        ]
        assert found == pytest.approx(expected, abs=1e-5)


def test_an_ensemble_of_one_model_twice_is_that_model():
    model = restless_transformer()
    one, two = (
        search(step, REQUESTS, DecodeConfig(beam=4), max_length=30)
        for step in (ModelStep(model), Ensemble([ModelStep(model), ModelStep(model)]))
    )
    assert [[h.tokens for h in own] for own in one] == [[h.tokens for h in own] for own in two]
