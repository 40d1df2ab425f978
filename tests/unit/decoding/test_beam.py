import math

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from naive_search import TableStep, all_outputs, beam_by_lists, random_language
from tiny import random_ids, restless_transformer

from seq2seq.config import DecodeConfig
from seq2seq.data.collate import collate_source
from seq2seq.decoding.beam import beam_search
from seq2seq.decoding.constraints import MinLength
from seq2seq.decoding.greedy import greedy_search
from seq2seq.decoding.step import ModelStep

ANY_SOURCES = st.lists(st.lists(st.integers(3, 12), max_size=6), min_size=1, max_size=4)
ANY_LIMITS = st.lists(st.integers(1, 7), min_size=4, max_size=4)
PENALTIES = st.sampled_from([0.0, 0.6, 1.0, 1.5])


@pytest.fixture(autouse=True, scope="module")
def _no_gradients():
    with torch.inference_mode():
        yield


# Against searches by hand


@pytest.mark.parametrize("penalty", [0.0, 1.0])
@pytest.mark.parametrize(("vocabulary", "limit", "beam"), [(4, 8, 16), (5, 5, 48), (6, 4, 108)])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_beam_as_large_as_the_space_finds_the_best_of_all_outputs(
    vocabulary, limit, beam, penalty, seed
):
    language = random_language(vocabulary, seed, sharpness=2.0)
    sources = [[3], [3, 4], []]
    config = DecodeConfig(min_length=0, beam=beam, n_best=3, length_penalty=penalty)
    results = beam_search(TableStep(language), collate_source(sources), [limit] * 3, config)
    for source, found in zip(sources, results, strict=True):
        outputs = all_outputs(language, tuple(source), limit)
        assert len(outputs) == sum((vocabulary - 3) ** length for length in range(limit))
        outputs.sort(key=lambda output: -output.score(penalty))
        assert [tuple(one.tokens) for one in found[:3]] == [one.tokens for one in outputs[:3]]
        assert all(one.finished for one in found)
        for one, expected in zip(found[:3], outputs, strict=False):
            assert one.log_prob == pytest.approx(expected.log_prob, abs=1e-5)
            assert one.score == pytest.approx(expected.score(penalty), abs=1e-5)


@settings(max_examples=60, deadline=None)
@given(
    sources=ANY_SOURCES,
    limits=ANY_LIMITS,
    seed=st.integers(0, 999),
    beam=st.integers(2, 6),
    penalty=PENALTIES,
    data=st.data(),
)
def test_any_beam_is_fairseqs_and_stopping_early_loses_nothing(
    sources, limits, seed, beam, penalty, data
):
    language = random_language(data.draw(st.integers(4, 8), label="vocabulary"), seed)
    n_best = data.draw(st.integers(1, beam), label="n_best")
    config = DecodeConfig(min_length=0, beam=beam, n_best=n_best, length_penalty=penalty)
    limits = limits[: len(sources)]
    results = beam_search(TableStep(language), collate_source(sources), limits, config)
    for source, limit, ended in zip(sources, limits, results, strict=True):
        found = ended[:n_best]
        expected = beam_by_lists(language, tuple(source), limit, beam, penalty)[:n_best]
        assert [tuple(one.tokens) for one in found[:beam]] == [one.tokens for one in expected]
        assert [one.finished for one in found] == [one.finished for one in expected]
        for one, other in zip(found, expected, strict=True):
            assert one.log_prob == pytest.approx(other.log_prob, abs=1e-5)
            assert one.score == pytest.approx(other.score(penalty), abs=1e-5)


@settings(max_examples=30, deadline=None)
@given(sources=ANY_SOURCES, limits=ANY_LIMITS, seed=st.integers(0, 999), penalty=PENALTIES)
def test_a_beam_of_one_is_greedy(sources, limits, seed, penalty):
    model = TableStep(random_language(6, seed))
    config = DecodeConfig(min_length=0, beam=1, length_penalty=penalty)
    arguments = (model, collate_source(sources), limits[: len(sources)], config)
    for [beam], [greedy] in zip(beam_search(*arguments), greedy_search(*arguments), strict=True):
        assert beam.tokens == greedy.tokens
        assert beam.finished == greedy.finished
        assert beam.log_prob == pytest.approx(greedy.log_prob, abs=1e-5)
        assert beam.score == pytest.approx(greedy.score, abs=1e-5)


# Drawn examples; the ids are <pad> <s> </s> a b

GARDEN_PATH = {
    (): [0.0, 0.0, 0.0, 0.6, 0.4],
    (3,): [0.0, 0.0, 0.4, 0.3, 0.3],
    (4,): [0.0, 0.0, 0.9, 0.05, 0.05],
}


def garden_path(source, words):
    """`a` looks better than `b`, but `b` goes on much better."""
    return GARDEN_PATH.get(words, [0.0, 0.0, 1.0, 0.0, 0.0])


def test_a_beam_of_two_finds_what_greedy_misses():
    arguments = (TableStep(garden_path), collate_source([[3]]), [5])
    [[greedy]] = greedy_search(*arguments, DecodeConfig(min_length=0, beam=1))
    [[beam, *_]] = beam_search(*arguments, DecodeConfig(min_length=0, beam=2))
    assert greedy.tokens == [3]
    assert beam.tokens == [4]
    assert beam.log_prob == pytest.approx(torch.tensor(0.4 * 0.9).log().item())


def test_impossible_words_are_no_results():
    def language(source, words):  # only "a b" is possible
        return [[0.0, 0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 0.0, 0.0, 1.0], [0.0, 0.0, 1.0, 0.0, 0.0]][
            min(len(words), 2)
        ]

    config = DecodeConfig(min_length=0, beam=4, n_best=4)
    [found] = beam_search(TableStep(language), collate_source([[3]]), [6], config)
    assert [(one.tokens, one.log_prob) for one in found] == [([3, 4], 0.0)]


def test_input_marks_are_never_output_even_when_likeliest():
    def language(source, words):
        return [0.4, 0.4, 0.1, 0.06, 0.04]

    config = DecodeConfig(min_length=0, beam=3, n_best=3, length_penalty=0.0)
    [found] = beam_search(TableStep(language), collate_source([[3]]), [9], config)
    assert [one.tokens for one in found] == [[], [3], [4]]


@pytest.mark.parametrize("search", [greedy_search, beam_search])
def test_an_output_is_never_shorter_than_the_minimum(search):
    def language(source, words):  # would rather end than go on
        return [0.0, 0.0, 0.9, 0.07, 0.03]

    for minimum in (0, 1, 3):
        config, rules = DecodeConfig(beam=1 if search is greedy_search else 3), MinLength([minimum])
        [[found, *_]] = search(
            TableStep(language), collate_source([[3]]), [9], config, [rules]
        )
        assert found.tokens == [3] * minimum
        assert found.log_prob == pytest.approx(minimum * math.log(0.07) + math.log(0.9), abs=1e-5)


def never_ends(source, words):
    return [0.0, 0.0, 0.0, 0.6, 0.4]


def test_a_sentence_cut_off_at_the_limit_is_marked_unfinished():
    config = DecodeConfig(min_length=0, beam=3, n_best=2)
    [[found]] = beam_search(TableStep(never_ends), collate_source([[3]]), [4], config)
    assert found.tokens == [3, 3, 3, 3]
    assert not found.finished
    assert found.log_prob == pytest.approx(4 * torch.tensor(0.6).log().item())
    assert found.score == pytest.approx(found.log_prob / 4)


def test_results_that_ended_are_preferred_to_any_that_did_not():
    def language(source, words):
        return [0.0, 0.0, 0.4, 0.6, 0.0]

    config = DecodeConfig(min_length=0, beam=2)
    [[found]] = beam_search(TableStep(language), collate_source([[3]]), [1], config)
    assert (found.tokens, found.finished) == ([], True)


@settings(max_examples=40, deadline=None)
@given(weights=st.lists(st.sampled_from([1, 2]), min_size=4, max_size=8), beam=st.integers(4, 6))
@example(weights=[1, 1, 2, 1, 1, 1, 1], beam=4)  # one ends, then four: more than were asked for
def test_of_extensions_equally_likely_the_first_beam_and_token_win(weights, beam):
    def language(source, words):
        return [weight / sum(weights) for weight in weights]

    config = DecodeConfig(min_length=0, beam=beam, n_best=beam, length_penalty=0.0)
    [found] = beam_search(TableStep(language), collate_source([[3]]), [2], config)
    expected = beam_by_lists(language, (3,), 2, beam, 0.0)[:beam]
    assert [tuple(one.tokens) for one in found[:beam]] == [one.tokens for one in expected]


# With a transformer

BEAM = DecodeConfig(min_length=0, beam=4, n_best=4, length_penalty=1.0)
SOURCES = [random_ids(i, 1 + i % 7).tolist() for i in range(12)]


@pytest.fixture(scope="module")
def model():
    return restless_transformer()


def search(step, sources):
    return beam_search(step, collate_source(sources), [20] * len(sources), BEAM)


@pytest.fixture(scope="module")
def found(model):
    """The hypotheses of each source on its own."""
    results = [search(ModelStep(model), [source])[0] for source in SOURCES]
    assert len({len(one.tokens) for result in results for one in result}) > 5
    return results


def test_results_are_sorted_and_distinct(found):
    assert max(len(result) for result in found) >= 4
    for result in found:
        scores = [one.score for one in result]
        assert scores == sorted(scores, reverse=True)
        assert len({tuple(one.tokens) for one in result}) == len(result)


def test_first_hypothesis_is_that_of_a_search_for_one(model, found):
    config = DecodeConfig(min_length=0, beam=4, n_best=1, length_penalty=1.0)
    source_BS = collate_source(SOURCES)
    results = beam_search(ModelStep(model), source_BS, [20] * len(SOURCES), config)
    assert [one.tokens for [one, *_] in results] == [result[0].tokens for result in found]
