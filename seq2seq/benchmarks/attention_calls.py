"""What `attend` costs beside a bare call of torch's SDPA, and what padding costs."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from seq2seq.model import masks
from seq2seq.model.attention import attend
from seq2seq.model.fused_attention import fused_backend

LENGTHS = (64, 512, 2048)
TOKENS = 4096  # positions in a batch, at every length
HEADS, KV_HEADS, WIDTH = 8, 2, 64


@dataclass
class Case:
    """One way to call attention, and what to compare it with."""

    name: str
    inputs: tuple[Tensor, Tensor, Tensor]  # queries, keys, values
    allowed: Tensor | None
    causal: bool
    direct: Callable[[Tensor, Tensor, Tensor], Tensor]


@dataclass
class CallTimes:
    """Milliseconds of one call, forward and with gradients; the ratios are ours / direct.

    Attributes:
        case: what was called.
        length: queries and keys of a sentence.
        backend: the fused kernel that ran.
    """

    case: str
    length: int
    backend: str
    direct_forward_ms: float
    attend_forward_ms: float
    reference_forward_ms: float
    direct_training_ms: float
    attend_training_ms: float
    reference_training_ms: float
    forward_ratio: float
    training_ratio: float


def measure_calls(device: str, repeats: int) -> Iterator[CallTimes]:
    """Times of every case at every length, in float32 on a CPU and bfloat16 on a GPU."""
    for length in LENGTHS:
        for case in _cases(length, device):
            yield _measure(case, length, device, repeats)


def _cases(length: int, device: str) -> Iterator[Case]:
    batch = max(1, TOKENS // length)
    dtype = torch.bfloat16 if device == "cuda" else torch.float32

    def heads(count: int) -> Tensor:
        # As projections leave them: (B, L, heads, E), seen as (B, heads, L, E).
        made = torch.randn(batch, length, count, WIDTH, device=device, dtype=dtype)
        return made.transpose(1, 2).requires_grad_()

    def sdpa(
        allowed: Tensor | None = None, causal: bool = False, grouped: bool = False
    ) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
        return lambda q, k, v: F.scaled_dot_product_attention(
            q, k, v, attn_mask=allowed, is_causal=causal, enable_gqa=grouped
        )

    equal = (heads(HEADS), heads(HEADS), heads(HEADS))
    few = (heads(HEADS), heads(KV_HEADS), heads(KV_HEADS))
    # One eighth of the positions pads, which is more than a sorted batch has.
    real = torch.arange(length, device=device) < length - length // 8
    padded = masks.padding(real.expand(batch, -1))
    yield Case("full", equal, None, False, sdpa())
    yield Case("full, padded", equal, padded, False, sdpa(padded))
    yield Case("causal", equal, None, True, sdpa(causal=True))
    yield Case("full, grouped", few, None, False, sdpa(grouped=True))
    yield Case("full, grouped, padded", few, padded, False, sdpa(padded, grouped=True))
    order = masks.combine(padded, masks.causal(length, length, torch.device(device)))
    yield Case("causal, grouped, padded", few, order, False, sdpa(order, grouped=True))
    yield Case("causal, grouped", few, None, True, sdpa(causal=True, grouped=True))


def _measure(case: Case, length: int, device: str, repeats: int) -> CallTimes:
    inputs, allowed, causal = case.inputs, case.allowed, case.causal
    calls: dict[str, Callable[[], Tensor]] = {
        "direct": lambda: case.direct(*inputs),
        "attend": lambda: attend(*inputs, allowed, causal=causal),
        "reference": lambda: attend(*inputs, allowed, kernel="reference", causal=causal),
    }
    times: dict[str, dict[str, list[float]]] = {}
    for kind in ("forward", "training"):
        times[kind] = {name: [] for name in calls}
        for turn in range(repeats + 2):
            for name, call in calls.items():  # in turns, so that a busy machine hits all alike
                milliseconds = _time(call, inputs, kind == "training", device)
                if turn >= 2:
                    times[kind][name].append(milliseconds)
    found = {
        f"{name}_{kind}_ms": statistics.median(values)
        for kind, by_name in times.items()
        for name, values in by_name.items()
    }
    return CallTimes(
        case=case.name,
        length=length,
        backend=fused_backend(*inputs, allowed, causal=causal),
        forward_ratio=_ratio(times["forward"]),
        training_ratio=_ratio(times["training"]),
        **found,
    )


def _ratio(times: dict[str, list[float]]) -> float:
    """Median of ours / direct over neighbouring calls."""
    pairs = zip(times["attend"], times["direct"], strict=True)
    return statistics.median(ours / direct for ours, direct in pairs)


def _time(
    call: Callable[[], Tensor], inputs: tuple[Tensor, ...], backward: bool, device: str
) -> float:
    started = time.perf_counter()
    if backward:
        torch.autograd.grad(call().sum(), inputs)
    else:
        with torch.inference_mode():
            call()
    if device == "cuda":
        torch.cuda.synchronize()
    return 1000 * (time.perf_counter() - started)
