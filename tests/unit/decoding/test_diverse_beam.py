"""Groups of beams that avoid each other, against a search over lists."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from naive_search import TableStep, beam_by_lists, diverse_beam_by_lists, random_language
from tiny import random_ids, restless_transformer

from seq2seq.config import DecodeConfig
from seq2seq.decoding.request import Request
from seq2seq.decoding.search import search
from seq2seq.decoding.step import ModelStep

SIZES = st.sampled_from([(2, 2), (4, 2), (6, 2), (6, 3), (4, 4)])


def diverse(language, sources, beam, groups, diversity, limit=6, **changes):
    config = DecodeConfig(
        beam=beam, groups=groups, diversity=diversity, n_best=beam, max_ratio=0, max_extra=limit,
        **{"min_length": 0, **changes},
    )  # fmt: skip
    requests = [Request(source) for source in sources]
    return search(TableStep(language), requests, config, max_length=64)


@settings(max_examples=60, deadline=None)
@given(
    sources=st.lists(st.lists(st.integers(3, 9), max_size=4), min_size=1, max_size=4),
    sizes=SIZES,
    diversity=st.sampled_from([0.0, 0.3, 1.0, 5.0]),
    limit=st.integers(1, 6),
    seed=st.integers(0, 999),
    vocabulary=st.integers(12, 15),
)
def test_groups_are_searched_as_over_lists(sources, sizes, diversity, limit, seed, vocabulary):
    language = random_language(vocabulary, seed)
    results = diverse(language, sources, *sizes, diversity, limit)
    for source, found in zip(sources, results, strict=True):
        expected = diverse_beam_by_lists(language, tuple(source), limit, *sizes, diversity, 1.0)
        assert [tuple(one.tokens) for one in found] == [one.tokens for one in expected]
        for one, other in zip(found, expected, strict=True):
            assert one.finished == other.finished
            assert one.log_prob == pytest.approx(other.log_prob, abs=1e-5)
            assert one.score == pytest.approx(other.score(1.0), abs=1e-5)


def test_groups_without_a_penalty_are_all_one_beam_of_their_size():
    language = random_language(9, 5)
    [found] = diverse(language, [[3, 4]], 6, 3, 0.0)
    expected = beam_by_lists(language, (3, 4), 6, 2, 1.0)[:2]
    assert [tuple(one.tokens) for one in found] == [one.tokens for one in expected]


@pytest.mark.parametrize(("beam", "groups"), [(4, 2), (6, 3), (4, 4)])
def test_n_best_hold_nothing_twice(beam, groups):
    sources = [[3] * i for i in range(12)]
    for found in diverse(random_language(7, 0), sources, beam, groups, 0.2):
        outputs = [tuple(one.tokens) for one in found]
        assert len(set(outputs)) == len(outputs)
        scores = [one.score for one in found]
        assert scores == sorted(scores, reverse=True)


def test_a_larger_penalty_makes_first_words_differ_more():
    any_words, sources = random_language(30, 0), [[3] * i for i in range(12)]

    def two_words(source, words):
        row = any_words(source, words)
        return [0, 0, len(words) == 2, *row[3:]] if len(words) < 2 else [0, 0, 1, *[0] * 27]

    def first_words(diversity):
        found = diverse(two_words, sources, 6, 6, diversity)
        return sum(len({one.tokens[0] for one in own}) for own in found)

    assert 12 == first_words(0.0) < first_words(0.5) < first_words(9.0) == 6 * 12


def test_one_group_is_beam_search_whatever_the_penalty():
    language, sources = random_language(9, 1), [[3] * i for i in range(6)]
    for found, source in zip(diverse(language, sources, 4, 1, 3.0), sources, strict=True):
        expected = beam_by_lists(language, tuple(source), 6, 4, 1.0)[:4]
        assert [tuple(one.tokens) for one in found] == [one.tokens for one in expected]


def test_a_transformer_gives_different_outputs_by_groups():
    model = ModelStep(restless_transformer())
    requests = [Request(random_ids(i, 4).tolist()) for i in range(6)]
    kinds = []
    for groups in (1, 4):
        config = DecodeConfig(beam=4, n_best=4, groups=groups, diversity=2.0)
        found = search(model, requests, config, max_length=48)
        kinds.append(sum(len({one.tokens[0] for one in own}) for own in found))
    assert kinds[0] < kinds[1]
