import pytest
import torch
from benchmarks import attention_calls
from benchmarks.attention_calls import measure_calls
from torch.testing import assert_close


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(attention_calls, "LENGTHS", (8, 16))
    monkeypatch.setattr(attention_calls, "TOKENS", 32)


def test_every_case_is_timed_at_every_length():
    calls = list(measure_calls("cpu", repeats=1))
    assert len({(call["case"], call["length"]) for call in calls}) == len(calls) == 14
    assert all(min(v for v in call.values() if isinstance(v, float)) > 0 for call in calls)
    assert {call["backend"] for call in calls} == {"flash"}


def test_training_is_timed_with_gradients_and_forward_without(monkeypatch):
    seen = []
    grad = torch.autograd.grad
    monkeypatch.setattr(
        torch.autograd, "grad", lambda out, inputs: seen.append(len(inputs)) or grad(out, inputs)
    )
    list(measure_calls("cpu", repeats=1))
    assert seen == [3] * (14 * 3 * 3)  # cases and lengths, kinds of call, turns


def test_the_ratio_is_ours_over_torchs():
    assert attention_calls._ratio({"attend": [2.0, 6.0, 2.0], "direct": [1.0, 2.0, 2.0]}) == 2.0


def test_both_sides_of_a_case_compute_the_same():
    for case in attention_calls._cases(16, "cpu"):
        ours = attention_calls.attend(*case.inputs, case.allowed, causal=case.causal)
        assert_close(case.direct(*case.inputs), ours, msg=case.name)
        assert ("padded" in case.name) == (case.allowed is not None)
        if case.allowed is not None:
            assert not case.allowed[..., -1].any(), case.name
