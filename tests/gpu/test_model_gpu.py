"""The model on the device of `conftest.py`: which kernels run, and steps as CUDA graphs.

On the CPU no graph is recorded, and other kernels are chosen.
"""

import pytest
import torch
from naive_attention import attention_by_loops
from step_walk import EVEN, PADDED, assert_same_walk
from tiny import normal, random_ids, real_positions, tiny_attention, tiny_transformer
from torch.testing import assert_close

from seq2seq.config import KERNELS, DecodeConfig
from seq2seq.decoding.cuda_graph import GraphStep
from seq2seq.decoding.request import Request
from seq2seq.decoding.search import search
from seq2seq.decoding.step import ModelStep
from seq2seq.model import masks
from seq2seq.model.attention import attend
from seq2seq.model.fused_attention import fused_backend
from seq2seq.model.positions import RotaryPositions

pytestmark = pytest.mark.gpu
HEADS = pytest.mark.parametrize("kv_heads", [1, 2, 4])
CAUSAL = pytest.mark.parametrize("causal", [False, True])


def arguments(kv_heads, mask, device, length, dtype=torch.bfloat16):
    q = normal(1, 2, 4, length, 64).to(device, dtype)
    k, v = (normal(seed, 2, kv_heads, length, 64).to(device, dtype) for seed in (2, 3))
    allowed = {
        None: None,
        "padding": masks.padding(real_positions([length // 2, length])),
        "per query": (normal(4, 2, length, length) > 0)[:, None],
        "blind": masks.padding(real_positions([0, length])),
    }[mask]
    return q, k, v, None if allowed is None else allowed.to(device)


@pytest.mark.parametrize("mask", [None, "padding", "per query", "blind"])
@CAUSAL
@HEADS
def test_a_fast_kernel_runs_in_half_precision(kv_heads, causal, mask, device):
    chosen = fused_backend(*arguments(kv_heads, mask, device, 24), causal=causal)
    assert chosen in ("flash", "efficient")  # not cuDNN, which plans each new shape anew


@pytest.mark.parametrize("mask", [None, "padding", "per query", "blind"])
@CAUSAL
@HEADS
def test_kernels_agree_and_blind_queries_are_harmless(kv_heads, causal, mask, device):
    for length in (7, 24, 65):
        *qkv, allowed = arguments(kv_heads, mask, device, length)
        exact = [tensor.float() for tensor in qkv]
        expected = attend(*exact, allowed, kernel="reference", causal=causal)
        for kernel in KERNELS:
            inputs = [tensor.clone().requires_grad_() for tensor in qkv]
            context = attend(*inputs, allowed, kernel=kernel, causal=causal)
            assert_close(context.float(), expected, rtol=0.02, atol=0.03)
            if mask == "blind":
                assert (context[0] == 0).all()
            context.float().square().sum().backward()
            assert all(tensor.grad.isfinite().all() for tensor in inputs)


@HEADS
def test_single_precision_is_the_loops(kv_heads, device):
    q, k, v, allowed = arguments(kv_heads, "padding", device, 6, torch.float32)
    parts = (part.cpu().double().numpy() for part in (q, k, v))
    expected = torch.from_numpy(attention_by_loops(*parts, allowed.cpu().numpy()))
    assert_close(attend(q, k, v, allowed).cpu().double(), expected, rtol=0, atol=1e-3)  # TF32


KINDS = pytest.mark.parametrize(
    "kind",
    [{}, {"n_kv_heads": 1, "norm": "post"}, {"positions": "rotary", "qk_norm": True}],
    ids=str,
)


class OnDevice:
    """A step model that takes and gives tensors of the CPU."""

    def __init__(self, step, device):
        self.inner, self.device = step, device

    def start(self, source_BS):
        return StateOnDevice(self.inner.start(source_BS.to(self.device)), self.device)

    def step(self, tokens_R, state):
        return self.inner.step(tokens_R.to(self.device), state.inner).cpu()


class StateOnDevice:
    def __init__(self, state, device):
        self.inner, self.device = state, device

    def reorder(self, rows):
        self.inner.reorder(rows.to(self.device))

    def keep(self, sentences, rows):
        self.inner.keep(sentences.to(self.device), rows.to(self.device))


@torch.inference_mode()
@pytest.mark.parametrize("source_BS", [PADDED, EVEN], ids=["padded", "even"])
@KINDS
def test_graph_steps_are_eager_steps_after_any_reordering(kind, source_BS, device):
    model = tiny_transformer(**kind).to(device)
    steps = [OnDevice(step(model), device) for step in (ModelStep, GraphStep)]
    assert_same_walk(*steps, source_BS)


@pytest.mark.parametrize("beam", [1, 3])
def test_searches_over_graphs_find_the_same(beam, device):
    model = tiny_transformer().to(device)
    with torch.no_grad():
        model.output.weight *= 3  # so that outputs differ
    requests = [Request(random_ids(i, 1 + i % 6).tolist()) for i in range(8)]
    config = DecodeConfig(beam=beam, n_best=beam, min_length=3)
    found, expected = (
        search(step, requests, config, max_length=24, device=device)
        for step in (GraphStep(model), ModelStep(model))
    )
    for own, others in zip(found, expected, strict=True):
        assert [one.tokens for one in own] == [one.tokens for one in others]
        for one, other in zip(own, others, strict=True):
            assert one.token_log_probs == pytest.approx(other.token_log_probs, abs=1e-4)


def test_rotary_angles_are_single_precision_in_a_model_of_half_precision(device):
    x = normal(1, 2, 3, 7, 8, dtype=torch.float32).to(device)
    exact, rounded = RotaryPositions(4096, 8).to(device), RotaryPositions(4096, 8).bfloat16()
    rounded = rounded.to(device)
    got = rounded(x.bfloat16(), start=4000)
    assert got.dtype == torch.bfloat16
    assert torch.equal(got, exact(x.bfloat16().float(), start=4000).bfloat16())


def test_normalised_heads_run_the_fused_kernel_under_autocast(device, recwarn):
    attention = tiny_attention(16, 4, qk_norm=True).float().to(device)
    x = normal(1, 2, 5, 16, dtype=torch.float32).to(device)
    with torch.autocast(device, torch.bfloat16):
        output = attention(x)
    assert_close(output.float(), attention(x), rtol=0.05, atol=0.05)
    assert not [w for w in recwarn.list if "fused" in str(w.message)]
