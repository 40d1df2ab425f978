import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seq2seq.config import DecodeConfig
from seq2seq.data.tokenizer import EOS
from seq2seq.decoding.hypothesis import Hypothesis, length_divisor
from seq2seq.decoding.request import output_limits


@pytest.mark.parametrize(
    ("source_length", "max_ratio", "extra", "model_limit", "ratio", "limit"),
    [
        (10, 2.0, 10, 256, 1.0, 30),
        (10, 2.0, 10, 256, 1.5, 40),  # of 15 tokens that are to be expected
        (3, 1.5, 2, 256, 1.0, 7),  # 4.5 is rounded up
        (1, 0.0, 1, 256, 1.0, 1),
        (200, 2.0, 10, 256, 1.0, 256),  # the model ends there
    ],
)
def test_the_most_tokens_of_an_output(source_length, max_ratio, extra, model_limit, ratio, limit):
    config = DecodeConfig(max_ratio=max_ratio, max_extra=extra, min_length=0)
    assert output_limits(source_length, config, model_limit, ratio)[1] == limit


@pytest.mark.parametrize(
    ("min_length", "min_ratio", "ratio", "least"),
    [(0, 0.0, 1.0, 0), (1, 0.0, 1.0, 1), (2, 0.5, 1.0, 5), (6, 0.5, 1.0, 6), (0, 0.5, 1.5, 7)],
)
def test_the_fewest_tokens_of_an_output_for_a_source_of_ten(min_length, min_ratio, ratio, least):
    config = DecodeConfig(min_length=min_length, min_ratio=min_ratio)
    assert output_limits(10, config, 256, ratio)[0] == least


def test_an_end_mark_always_fits_behind_the_fewest_tokens():
    config = DecodeConfig(min_length=20, max_ratio=1.0, max_extra=1)
    assert output_limits(4, config, 256) == (4, 5)


def test_what_a_log_probability_is_divided_by():
    for penalty, expected in ((0.0, 1.0), (1.0, 4.0), (0.5, 2.0)):
        assert length_divisor(4, DecodeConfig(length_penalty=penalty)) == pytest.approx(expected)
        gnmt = DecodeConfig(length_norm="gnmt", length_penalty=penalty)
        assert length_divisor(7, gnmt) == pytest.approx(2.0**penalty)
        assert length_divisor(4, DecodeConfig(length_norm="none", length_penalty=penalty)) == 1


@given(
    log_prob=st.floats(-50, 0),
    lost=st.floats(0, 50),
    lengths=st.tuples(st.integers(1, 300), st.integers(1, 300)),
    norm=st.sampled_from(["none", "average", "gnmt"]),
    penalty=st.floats(0, 3),
)
def test_no_continuation_passes_the_bound(log_prob, lost, lengths, norm, penalty):
    """The proof that beam search may stop, see `beam._StopRule`."""
    length, limit = sorted(lengths)
    config = DecodeConfig(length_norm=norm, length_penalty=penalty)
    assert 0 < length_divisor(length, config) <= length_divisor(limit, config)
    continued = (log_prob - lost) / length_divisor(length, config)
    assert continued <= log_prob / length_divisor(limit, config) + 1e-12


def test_an_output_ends_at_its_end_mark_or_before_what_is_impossible():
    config, inf = DecodeConfig(), math.inf
    made = [
        Hypothesis.of(output, log_probs, config)
        for output, log_probs in (
            ([5, 6, EOS, 7], [-1.0, -2.0, -3.0, -inf]),
            ([5, 6, 7], [-1.0, -2.0, -3.0]),
            ([5, EOS, 7], [-1.0, -inf, -3.0]),
            ([5], [-inf]),
        )
    ]
    assert made == [
        Hypothesis([5, 6], -6.0, -2.0, True, [-1.0, -2.0, -3.0]),
        Hypothesis([5, 6, 7], -6.0, -2.0, False, [-1.0, -2.0, -3.0]),
        Hypothesis([5], -1.0, -1.0, False, [-1.0]),
        Hypothesis([], 0.0, 0.0, False, []),
    ]
