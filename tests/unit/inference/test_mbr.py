"""The utility against sacrebleu, and the choice against a loop."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sacrebleu.metrics.chrf import CHRF

from seq2seq.decoding.hypothesis import Hypothesis
from seq2seq.inference.mbr import by_consensus, chrf_matrix, expected_utilities

SENTENCES = [
    "Un homme en T-shirt bleu est debout sur une échelle.",
    "Un homme dans une chemise bleue se tient sur une échelle.",
    "Un homme en T-shirt bleu nettoie une fenêtre",
    "Deux chiens jouent dans la neige.",
    "chien",
    "a",
    "",
    "  ",
    "aaaaaaaaaa",
    "« Où ? »",
]
TEXTS = st.lists(st.text("abcé .", max_size=12), min_size=1, max_size=6)


def check(texts):
    metric, found = CHRF(), chrf_matrix(texts)
    for i, hypothesis in enumerate(texts):
        for j, reference in enumerate(texts):
            expected = metric.sentence_score(hypothesis, [reference]).score
            assert found[i, j] == pytest.approx(expected, abs=1e-6), (hypothesis, reference)


def test_the_utility_is_sacrebleus_sentence_chrf():
    check(SENTENCES)


@settings(max_examples=60, deadline=None)
@given(texts=TEXTS)
def test_the_utility_is_sacrebleus_for_any_text(texts):
    check(texts)


@settings(max_examples=30, deadline=None)
@given(texts=TEXTS)
def test_the_expected_utility_is_the_mean_over_all_samples(texts):
    metric = CHRF()
    for text, found in zip(texts, expected_utilities(texts), strict=True):
        scores = [metric.sentence_score(text, [other]).score for other in texts]
        assert found == pytest.approx(sum(scores) / len(scores), abs=1e-6)


def hypotheses(count):
    return [Hypothesis([i], -float(i), -float(i), True) for i in range(count)]


def test_the_sample_that_is_most_like_the_others_comes_first_and_texts_once():
    texts = [SENTENCES[3], SENTENCES[0], SENTENCES[1], SENTENCES[0]]
    found = by_consensus(hypotheses(4), texts)
    assert [one.tokens for one in found] == [[1], [2], [0]]


def test_equal_samples_count_as_often_as_they_occur():
    rare, often = "les chiens", "un chat noir"
    assert by_consensus(hypotheses(3), [rare, often, rare])[0].tokens == [0]
    assert by_consensus(hypotheses(4), [rare, often, often, often])[0].tokens == [1]


def test_texts_without_letters_are_no_trouble():
    utilities = expected_utilities(["", " ", ""])
    assert utilities == [0.0, 0.0, 0.0]
    assert not any(map(math.isnan, utilities))
