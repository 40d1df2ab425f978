import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from naive_search import TableStep, beam_by_lists, greedy_by_hand, random_language
from tiny import random_ids, tiny_transformer

from seq2seq.config import DecodeConfig
from seq2seq.data.tokenizer import EOS
from seq2seq.decoding.request import Request
from seq2seq.decoding.search import search as search_requests
from seq2seq.decoding.step import ModelStep

ANY_SOURCES = st.lists(st.lists(st.integers(3, 12), max_size=6), max_size=8)


def search(model, sources, config, **options):
    return search_requests(model, [Request(source) for source in sources], config, **options)


def limit_of(source: list[int], config: DecodeConfig) -> int:
    return int(-(-config.max_ratio * (len(source) + 1) // 1)) + config.max_extra


@settings(max_examples=30, deadline=None)
@given(sources=ANY_SOURCES, seed=st.integers(0, 999), batch_tokens=st.integers(1, 60))
def test_greedy_results_come_in_the_order_of_the_sources(sources, seed, batch_tokens):
    language = random_language(6, seed)
    config = DecodeConfig(beam=1, min_length=0, max_extra=2, batch_tokens=batch_tokens)
    results = search(TableStep(language), sources, config, max_length=256)
    assert len(results) == len(sources)
    for source, [found] in zip(sources, results, strict=True):
        expected = greedy_by_hand(language, tuple(source), limit_of(source, config))
        assert tuple(found.tokens) == expected.tokens
        assert found.finished == expected.finished


@settings(max_examples=30, deadline=None)
@given(sources=ANY_SOURCES, seed=st.integers(0, 999), batch_tokens=st.integers(1, 200))
def test_beam_results_come_in_the_order_of_the_sources(sources, seed, batch_tokens):
    language = random_language(6, seed)
    config = DecodeConfig(beam=3, n_best=2, min_length=0, max_extra=2, batch_tokens=batch_tokens)
    results = search(TableStep(language), sources, config, max_length=256)
    assert len(results) == len(sources)
    for source, found in zip(sources, results, strict=True):
        limit = limit_of(source, config)
        expected = beam_by_lists(language, tuple(source), limit, 3, config.length_penalty)
        assert [tuple(one.tokens) for one in found[:2]] == [one.tokens for one in expected[:2]]


class Recorder(TableStep):
    """Notes the shapes of the sources it is given."""

    def __init__(self, language):
        super().__init__(language)
        self.shapes = []

    def start(self, source_BS):
        self.shapes.append(tuple(source_BS.shape))
        return super().start(source_BS)


@pytest.mark.parametrize("beam", [1, 4])
def test_batches_hold_at_most_the_budget_and_the_longest_come_first(beam):
    model = Recorder(random_language(6, 0))
    sources = [[3] * length for length in (1, 9, 4, 4, 2, 7, 1, 3)]
    search(model, sources, DecodeConfig(beam=beam, batch_tokens=40 * beam), max_length=64)
    assert sum(rows for rows, _ in model.shapes) == len(sources)
    assert all(rows * length <= 40 for rows, length in model.shapes)
    assert len(model.shapes) < len(sources)
    longest = [length for _, length in model.shapes]
    assert longest == sorted(longest, reverse=True)
    assert longest[0] == 10  # with its end mark


@pytest.mark.parametrize("beam", [1, 4])
def test_a_batch_of_short_sentences_has_no_more_rows_than_one_of_eight_tokens_each(beam):
    """Each row is as long as the vocabulary, however short its sentence."""
    model = Recorder(random_language(6, 0))
    search(model, [[3]] * 100, DecodeConfig(beam=beam, batch_tokens=80 * beam), max_length=64)
    assert model.shapes == [(10, 2)] * 10


def test_a_sentence_longer_than_the_budget_is_searched_alone():
    model = Recorder(random_language(6, 0))
    assert all(search(model, [[3] * 9, [3]], DecodeConfig(batch_tokens=1), max_length=64))
    assert model.shapes == [(1, 10), (1, 2)]


def test_no_sources_give_no_results():
    assert search(TableStep(random_language(6, 0)), [], DecodeConfig(), max_length=64) == []


def never_ends(source, words):
    return [0.0, 0.0, 0.0, 1.0]


@pytest.mark.parametrize("beam", [1, 3])
def test_each_limit_depends_on_its_own_source_and_on_the_model(beam):
    config = DecodeConfig(beam=beam, max_ratio=1.5, max_extra=3)
    results = search(TableStep(never_ends), [[3], [3] * 4, [], [3] * 9], config, max_length=15)
    assert [len(found.tokens) for [found] in results] == [6, 11, 5, 15]
    assert not any(found.finished for [found] in results)


@pytest.mark.parametrize("beam", [1, 3])
def test_progress_counts_every_sentence_once_batch_by_batch(beam):
    model, counts = Recorder(random_language(6, 0)), []
    sources = [[3] * length for length in (1, 9, 4, 4, 2, 7, 1, 3)]
    config = DecodeConfig(beam=beam, batch_tokens=20 * beam)
    search(model, sources, config, max_length=64, progress=counts.append)
    assert counts == [rows for rows, _ in model.shapes]


@pytest.mark.parametrize("beam", [1, 5])
def test_a_transformer_is_searched_up_to_its_very_last_position(beam):
    model = tiny_transformer(tie_embeddings="none", max_length=8)
    with torch.no_grad():  # hidden states of ones, and an end mark that they never choose
        model.decoder_norm.weight.zero_()
        model.decoder_norm.bias.fill_(1.0)
        model.output.weight[EOS] = -1.0
    sources = [random_ids(0, 5).tolist()]
    config = DecodeConfig(beam=beam)
    [[found]] = search(ModelStep(model), sources, config, max_length=8)
    assert len(found.tokens) == 8
    assert not found.finished


def test_what_else_a_beam_found_comes_for_free():
    sources = [[3 + i % 5] * (1 + i % 4) for i in range(6)]
    config = DecodeConfig(beam=4, min_length=0, max_extra=4)
    results = search(TableStep(random_language(9, 1)), sources, config, max_length=256)
    assert max(map(len, results)) > config.n_best
    for found in results:
        scores = [one.score for one in found]
        assert scores == sorted(scores, reverse=True)
        assert all(one.finished for one in found[1:])
