"""What `attend` costs beside a bare call of torch's SDPA, and what padding costs."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.measuring import seconds_of
from seq2seq.model import masks
from seq2seq.model.attention import attend, fused_backend

LENGTHS = (64, 512, 2048)
TOKENS = 4096  # positions in a batch, at every length
HEADS, KV_HEADS, WIDTH = 8, 2, 64
WARM_UP = 2


class Case(NamedTuple):
    """One way to call attention."""

    name: str
    inputs: tuple[Tensor, Tensor, Tensor]  # queries, keys, values
    allowed: Tensor | None
    causal: bool

    def direct(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """The same by torch alone."""
        return F.scaled_dot_product_attention(
            q, k, v, attn_mask=self.allowed, is_causal=self.causal, enable_gqa=k.size(1) < q.size(1)
        )


def measure_calls(device: str, repeats: int) -> Iterator[dict[str, Any]]:
    """Milliseconds of every case at every length, forward and with gradients (training).

    In float32 on a CPU and bfloat16 on a GPU; `backend` is the fused kernel that ran, and the
    ratios are ours / direct.
    """
    for length in LENGTHS:
        for case in _cases(length, device):
            times = {kind: _times(case, kind, device, repeats) for kind in ("forward", "training")}
            yield {
                "case": case.name,
                "length": length,
                "backend": fused_backend(*case.inputs, case.allowed, causal=case.causal),
                **{
                    f"{name}_{kind}_ms": 1000 * statistics.median(values)
                    for kind, by_name in times.items()
                    for name, values in by_name.items()
                },
                **{f"{kind}_ratio": _ratio(by_name) for kind, by_name in times.items()},
            }


def _cases(length: int, device: str) -> Iterator[Case]:
    batch = max(1, TOKENS // length)
    dtype = torch.bfloat16 if device == "cuda" else torch.float32

    def heads(count: int) -> Tensor:
        # As projections leave them: (B, L, heads, E), seen as (B, heads, L, E).
        made = torch.randn(batch, length, count, WIDTH, device=device, dtype=dtype)
        return made.transpose(1, 2).requires_grad_()

    equal = (heads(HEADS), heads(HEADS), heads(HEADS))
    few = (heads(HEADS), heads(KV_HEADS), heads(KV_HEADS))
    # One eighth of the positions pads, which is more than a sorted batch has.
    real = torch.arange(length, device=device) < length - length // 8
    padded = masks.padding(real.expand(batch, -1))
    order = masks.combine(padded, masks.causal(length, length, torch.device(device)))
    yield Case("full", equal, None, False)
    yield Case("full, padded", equal, padded, False)
    yield Case("causal", equal, None, True)
    yield Case("full, grouped", few, None, False)
    yield Case("full, grouped, padded", few, padded, False)
    yield Case("causal, grouped, padded", few, order, False)
    yield Case("causal, grouped", few, None, True)


def _times(case: Case, kind: str, device: str, repeats: int) -> dict[str, list[float]]:
    ours = partial(attend, *case.inputs, case.allowed, causal=case.causal)
    calls: dict[str, Callable[[], Any]] = {
        "direct": partial(case.direct, *case.inputs),
        "attend": ours,
        "reference": partial(ours, kernel="reference"),
    }
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(WARM_UP + repeats):
        for name, call in calls.items():  # in turns, so that a busy machine hits all alike
            action = partial(_with_gradients, call, case.inputs) if kind == "training" else call
            with torch.inference_mode(kind == "forward"):
                times[name].append(seconds_of(action, device))
    return {name: values[WARM_UP:] for name, values in times.items()}


def _with_gradients(call: Callable[[], Tensor], inputs: tuple[Tensor, ...]) -> None:
    torch.autograd.grad(call().sum(), inputs)


def _ratio(times: dict[str, list[float]]) -> float:
    """Median of ours / direct over neighbouring calls."""
    pairs = zip(times["attend"], times["direct"], strict=True)
    return statistics.median(ours / direct for ours, direct in pairs)
