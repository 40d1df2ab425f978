import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from naive_search import TableStep, greedy_by_hand, random_language
from tiny import random_ids, restless_transformer

from seq2seq.config import DecodeConfig
from seq2seq.data.collate import collate_source
from seq2seq.data.tokenizer import BOS, EOS, PAD
from seq2seq.decoding.greedy import greedy_search
from seq2seq.decoding.step import ModelStep

GREEDY = DecodeConfig(min_length=0, beam=1)
ANY_SOURCES = st.lists(st.lists(st.integers(3, 12), max_size=6), min_size=1, max_size=5)


@pytest.fixture(autouse=True, scope="module")
def _no_gradients():
    with torch.inference_mode():
        yield


@settings(max_examples=40, deadline=None)
@given(
    sources=ANY_SOURCES,
    limits=st.lists(st.integers(1, 8), min_size=5, max_size=5),
    seed=st.integers(0, 999),
    penalty=st.sampled_from([0.0, 0.6, 1.0]),
)
def test_each_sentence_is_searched_as_by_hand(sources, limits, seed, penalty):
    language = random_language(6, seed)
    config = DecodeConfig(min_length=0, beam=1, length_penalty=penalty)
    limits = limits[: len(sources)]
    results = greedy_search(TableStep(language), collate_source(sources), limits, config)
    for source, limit, [found] in zip(sources, limits, results, strict=True):
        expected = greedy_by_hand(language, tuple(source), limit)
        assert tuple(found.tokens) == expected.tokens
        assert found.finished == expected.finished
        assert found.log_prob == pytest.approx(expected.log_prob, abs=1e-5)
        assert found.score == pytest.approx(expected.score(penalty), abs=1e-5)


def test_input_marks_are_never_output_even_when_likeliest():
    def language(source, words):
        return [0.5, 0.3, 0.05, 0.1, 0.05] if len(words) < 2 else [0.5, 0.3, 0.15, 0.03, 0.02]

    [[found]] = greedy_search(TableStep(language), collate_source([[3]]), [9], GREEDY)
    assert found.tokens == [3, 3]
    assert PAD not in found.tokens
    assert BOS not in found.tokens
    assert found.log_prob == pytest.approx(torch.tensor([0.1, 0.1, 0.15]).log().sum().item())


def test_an_end_mark_fits_into_the_limit_and_one_token_less_cuts_off():
    def language(source, words):
        return [0.0, 0.0, 0.1, 0.9] if len(words) < 2 else [0.0, 0.0, 0.9, 0.1]

    model, source = TableStep(language), collate_source([[3]])
    [[ended]] = greedy_search(model, source, [3], GREEDY)
    assert (ended.tokens, ended.finished) == ([3, 3], True)
    [[cut]] = greedy_search(model, source, [2], GREEDY)
    assert (cut.tokens, cut.finished) == ([3, 3], False)
    assert cut.score == pytest.approx(cut.log_prob / 2)
    assert ended.score == pytest.approx(ended.log_prob / 3)


# With a transformer


def test_every_token_is_the_likeliest_after_its_prefix():
    model, words = restless_transformer(), torch.arange(EOS, 13)
    for length in range(1, 7):
        source_BS = collate_source([random_ids(length, length).tolist()])
        [[found]] = greedy_search(ModelStep(model), source_BS, [20], GREEDY)
        output = [*found.tokens, EOS] if found.finished else found.tokens
        target = torch.tensor([[BOS, *output[:-1]]])
        logits = model.project(model(source_BS, source_BS != PAD, target)[0])
        assert words[logits[:, words].argmax(dim=-1)].tolist() == output
