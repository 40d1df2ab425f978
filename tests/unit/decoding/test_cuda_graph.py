"""Steps at fixed shapes, also recorded: the same numbers as the plain ones."""

from itertools import product

import pytest
import torch
from step_walk import EVEN, PADDED, assert_same_walk
from tiny import random_ids, tiny_transformer
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from seq2seq.config import DecodeConfig
from seq2seq.data.tokenizer import BOS
from seq2seq.decoding import cuda_graph
from seq2seq.decoding.cuda_graph import GraphStep, _rounded, graph_step
from seq2seq.decoding.request import Request
from seq2seq.decoding.search import search
from seq2seq.decoding.step import ModelStep
from seq2seq.errors import UserError

KINDS = [
    {"positions": positions, **other}
    for positions, other in product(
        ("sinusoidal", "learned", "rotary"),
        ({}, {"n_kv_heads": 1, "norm": "post"}, {"qk_norm": True, "activation": "swiglu"}),
    )
]


class Tape(TorchDispatchMode):
    """Replays what it has seen as a CUDA graph does: same calls, numbers and places of memory."""

    def __init__(self):
        super().__init__()
        self.calls = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        self.calls.append((function, args, kwargs or {}, result))
        return result

    def replay(self):
        for function, args, kwargs, result in self.calls:
            again = function(*args, **kwargs)
            for old, new in zip(tree_leaves(result), tree_leaves(again), strict=True):
                if isinstance(old, torch.Tensor) and old.data_ptr() != new.data_ptr():
                    old.copy_(new)


@pytest.fixture
def tapes(monkeypatch):
    """Every slot is recorded on a tape, as on a GPU in a graph."""
    made = []

    def record(run, device):
        with Tape() as tape:
            run()
        made.append(tape)
        return tape.replay

    monkeypatch.setattr(cuda_graph, "recorded", record)
    return made


@torch.inference_mode()
@pytest.mark.parametrize("source_BS", [PADDED, EVEN], ids=["padded", "even"])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: "-".join(map(str, kind.values())))
def test_recorded_steps_are_those_of_the_whole_decoder_after_any_reordering(
    kind, source_BS, tapes
):
    model = tiny_transformer(**kind)
    assert_same_walk(ModelStep(model), GraphStep(model), source_BS)
    assert len(tapes) == 3  # three sentences, then two, then more positions


@pytest.mark.parametrize("beam", [1, 3])
def test_searches_find_the_same_and_record_nothing_twice(beam, tapes):
    model = tiny_transformer()
    with torch.no_grad():
        model.output.weight *= 3  # so that outputs differ
    requests = [Request(random_ids(i, 1 + i % 6).tolist()) for i in range(8)]
    config = DecodeConfig(beam=beam, n_best=beam, min_length=3)
    static = GraphStep(model)
    expected = search(ModelStep(model), requests, config, max_length=24)
    made = 0
    for turn in range(2):
        found = search(static, requests, config, max_length=24)
        for own, others in zip(found, expected, strict=True):
            assert [one.tokens for one in own] == [one.tokens for one in others]
            for one, other in zip(own, others, strict=True):
                assert one.token_log_probs == pytest.approx(other.token_log_probs, abs=1e-5)
        made = made if turn else len(tapes)
        assert len(tapes) == made > 0


@torch.inference_mode()
def test_a_search_beside_another_steps_without_graphs(tapes):
    step = GraphStep(tiny_transformer())
    sources = random_ids(1, 2, 5), random_ids(2, 2, 5)

    def run(states):
        found = []
        for position in range(4):
            for state in states:
                tokens_R = torch.full((2,), BOS) if not position else random_ids(position, 2)
                found.append(step.step(tokens_R, state).clone())
        return found

    alone = [run([step.start(source)]) for source in sources]
    together = run([step.start(source) for source in sources])
    for i in range(2):
        torch.testing.assert_close(together[i::2], alone[i], atol=1e-6, rtol=1e-5)
    assert len(tapes) == 1  # the slot of the searches before was taken again


@torch.inference_mode()
@pytest.mark.parametrize("bound", ["MAX_BYTES", "MAX_SLOTS"])
def test_slots_are_kept_up_to_a_bound(bound, monkeypatch):
    step = GraphStep(tiny_transformer())

    def search_once(length):
        state = step.start(random_ids(1, 2, length))
        for _ in range(2):
            step.step(torch.full((2,), BOS), state)

    search_once(5)
    search_once(30)
    assert len(step._slots) == 2
    monkeypatch.setattr(cuda_graph, bound, 0)
    search_once(40)
    assert len(step._slots) == 1


@torch.inference_mode()
def test_what_is_not_a_number_does_not_stay_in_a_slot():
    step = GraphStep(tiny_transformer())
    tokens_R = torch.full((2,), BOS)
    for spoil in (True, False):
        state = step.start(random_ids(1, 2, 5))
        for _ in range(3):
            found = step.step(tokens_R, state)
        if spoil:  # as an overflow in 16 bits would
            state.held.cache.storage[0, :, :, 2:] = torch.nan
            slot = state.held
        del state
    assert [*step._slots.values()] == [slot]
    assert found.isfinite().all()


def test_sizes_of_slots_are_few_and_seldom_much_too_large():
    sizes = [_rounded(number) for number in range(1, 257)]
    assert all(number <= size < 1.5 * number + 1 for number, size in enumerate(sizes, 1))
    assert sorted(set(sizes)) == [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256]


def test_graphs_without_a_gpu_are_refused():
    with pytest.raises(UserError, match=r"CUDA graphs need a GPU, and the model is on cpu"):
        graph_step(tiny_transformer())
