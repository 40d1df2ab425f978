"""Searches on the device of `conftest.py` find what a CPU finds, and wait once a step."""

from __future__ import annotations

import warnings

import pytest
import torch
from naive_search import TableStep
from torch.utils._python_dispatch import TorchDispatchMode

from seq2seq.config import DecodeConfig
from seq2seq.data.tokenizer import BOS, EOS, PAD
from seq2seq.decoding.request import Request
from seq2seq.decoding.search import search

pytestmark = pytest.mark.gpu
VOCABULARY, KINDS = 640, 4
STRATEGIES = {
    "greedy": {"beam": 1},
    "beam": {"beam": 4, "n_best": 4},
    "gnmt": {"beam": 3, "length_norm": "gnmt", "length_penalty": 0.6},
    "sample": {"strategy": "sample", "n_best": 3, "temperature": 0.7, "top_k": 20},
    "rules": {"beam": 3, "no_repeat_ngram": 2, "repetition_penalty": 1.3, "min_ratio": 0.5},
}
strategies = pytest.mark.parametrize("strategy", STRATEGIES)
ASKED = [
    {},
    {"prefix": [4, 5]},
    {"banned": [[3], [6, 7]]},
]
REQUESTS = [Request([3 + i] * (i % 6), **ASKED[i % 3]) for i in range(16)]


def table() -> torch.Tensor:
    """Log probabilities of a token by the length of the source and the token before."""
    draw = torch.Generator().manual_seed(0)
    logits = 3 * torch.randn(KINDS, VOCABULARY, VOCABULARY, generator=draw)
    logits[..., EOS] += 4
    return torch.log_softmax(logits, dim=-1)


class DeviceTable:
    """The table as a step model: all that it remembers is on the device, and equal on any."""

    def __init__(self, device: str):
        self.table, self.on_step = table().to(device), lambda: None

    def start(self, source_BS):
        return Kinds((source_BS != PAD).sum(dim=1) % KINDS)

    def step(self, tokens_R, state):
        self.on_step()
        kind_R = state.kind_B.repeat_interleave(len(tokens_R) // len(state.kind_B))
        return self.table[kind_R, tokens_R]


class Kinds:
    def __init__(self, kind_B):
        self.kind_B = kind_B

    def reorder(self, rows):
        pass

    def keep(self, sentences, rows):
        self.kind_B = self.kind_B[sentences]


def run(model, strategy, device, requests=REQUESTS):
    config = DecodeConfig(**STRATEGIES[strategy])
    return search(model, requests, config, max_length=40, device=device)


@strategies
def test_what_is_found_is_what_lists_of_numbers_give(device, strategy):
    """The other model is asked on the CPU, for each hypothesis by its whole text."""
    probabilities = table().double().exp()

    def language(source, words):
        last = words[-1] if words else BOS
        return probabilities[(len(source) + 1) % KINDS, last].tolist()

    found = run(DeviceTable(device), strategy, device)
    expected = run(TableStep(language), strategy, "cpu")
    for own, others in zip(found, expected, strict=True):
        assert [one.tokens for one in own] == [one.tokens for one in others]
        assert [one.finished for one in own] == [one.finished for one in others]
        for one, other in zip(own, others, strict=True):
            assert one.score == pytest.approx(other.score, abs=1e-5)
            assert one.token_log_probs == pytest.approx(other.token_log_probs, abs=1e-5)


@strategies
def test_a_sentence_is_translated_alike_alone_and_in_any_batch(device, strategy):
    model = DeviceTable(device)
    together = run(model, strategy, device)
    assert [run(model, strategy, device, [one])[0] for one in REQUESTS] == together


aten = torch.ops.aten
ASKING = {aten._local_scalar_dense, aten.item, aten.is_nonzero, aten.nonzero, aten.masked_select}


class Waits(TorchDispatchMode):
    """Counts what asks a device for a number, or for a number of rows."""

    count = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        asks = function.overloadpacket in ASKING
        if function.overloadpacket in (aten.index, aten.index_put, aten.index_put_):
            asks = any(i is not None and i.dtype == torch.bool for i in args[1])
        self.count += asks
        return function(*args, **(kwargs or {}))


@strategies
def test_a_step_waits_for_the_device_once(device, strategy):
    model = DeviceTable(device)
    run(model, strategy, device)  # which sets up libraries
    with Waits() as waits:
        run(model, strategy, device)
    assert waits.count == 0
    if device == "cuda":
        torch.cuda.set_sync_debug_mode("warn")
        try:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                model.on_step = lambda: counts.append(len(caught))
                counts: list[int] = []
                run(model, strategy, device)
        finally:
            torch.cuda.set_sync_debug_mode("default")
        assert counts[-1] - counts[0] <= len(counts)
        assert len(caught) > len(counts) // 2  # else nothing was counted
