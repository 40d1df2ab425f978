import pytest
from hypothesis import given
from hypothesis import strategies as st

from seq2seq.config import DecodeConfig
from seq2seq.decoding.lengths import best_possible, normalised, output_limit


@pytest.mark.parametrize(
    ("source_length", "ratio", "extra", "model_limit", "limit"),
    [
        (10, 2.0, 10, 256, 30),
        (3, 1.5, 2, 256, 7),  # 4.5 is rounded up
        (1, 0.0, 1, 256, 1),
        (200, 2.0, 10, 256, 256),  # the model ends there
    ],
)
def test_output_limit(source_length, ratio, extra, model_limit, limit):
    config = DecodeConfig(max_ratio=ratio, max_extra=extra)
    assert output_limit(source_length, config, model_limit) == limit


def test_penalty_0_is_the_log_probability_and_1_the_mean_per_token():
    assert normalised(-6.0, 4, 0.0) == -6.0
    assert normalised(-6.0, 4, 1.0) == -1.5
    assert normalised(-6.0, 4, 0.5) == pytest.approx(-3.0)


@given(
    log_prob=st.floats(-50, 0),
    lost=st.floats(0, 50),
    lengths=st.tuples(st.integers(1, 300), st.integers(1, 300)),
    penalty=st.floats(0, 3),
)
def test_no_continuation_passes_the_bound(log_prob, lost, lengths, penalty):
    length, limit = sorted(lengths)
    continued = normalised(log_prob - lost, length, penalty)
    assert continued <= best_possible(log_prob, limit, penalty) + 1e-12


def test_the_bound_is_reached_by_a_sure_continuation_to_the_limit():
    assert best_possible(-3.0, 6, 1.0) == normalised(-3.0, 6, 1.0) == -0.5
