from torch.testing import assert_close

from seq2seq.benchmarks import attention_calls
from seq2seq.benchmarks.attention_calls import measure_calls


def test_every_case_is_timed_at_every_length(monkeypatch):
    monkeypatch.setattr(attention_calls, "LENGTHS", (8, 16))
    monkeypatch.setattr(attention_calls, "TOKENS", 32)
    calls = list(measure_calls("cpu", repeats=1))
    assert len({(call.case, call.length) for call in calls}) == len(calls) == 12
    assert all(min(v for v in vars(c).values() if isinstance(v, float)) > 0 for c in calls)
    assert {call.backend for call in calls} == {"flash"}


def test_both_sides_of_a_case_compute_the_same(monkeypatch):
    monkeypatch.setattr(attention_calls, "TOKENS", 32)
    for case in attention_calls._cases(16, "cpu"):
        ours = attention_calls.attend(*case.inputs, case.allowed, causal=case.causal)
        assert_close(case.direct(*case.inputs), ours, msg=case.name)
