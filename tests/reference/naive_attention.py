"""Attention written as plain loops, so that it is obviously right, if slow.

Arrays as in `seq2seq.model.attention`: q (B, H, T, E), k (B, K, S, E), v (B, K, S, any width).
Weight matrices are (in, out), so that a projection is x W + b.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np


def softmax_by_hand(scores: list[float]) -> list[float]:
    """Softmax of a few numbers; -inf gives zero, and nothing but -inf gives zeros."""
    exponentials = [math.exp(score) for score in scores]
    total = sum(exponentials)
    return [exponential / total if total else 0.0 for exponential in exponentials]


def weights_by_loops(
    q: np.ndarray,
    k: np.ndarray,
    allowed: np.ndarray | None = None,
    *,
    causal: bool = False,
    scale: float | None = None,
) -> np.ndarray:
    """(B, H, T, S) attention weights; zeros for a query that may see nothing."""
    batch, heads, queries, width = q.shape
    kv_heads, keys = k.shape[1], k.shape[2]
    scale = 1 / math.sqrt(width) if scale is None else scale
    may = np.ones((batch, heads, queries, keys), dtype=bool)
    if allowed is not None:
        may = may & allowed
    weights = np.zeros((batch, heads, queries, keys))
    for b in range(batch):
        for h in range(heads):
            served_by = h * kv_heads // heads  # neighbouring query heads share a key/value head
            for t in range(queries):
                position = keys - queries + t  # the last query is the last key
                scores = [-math.inf] * keys
                for s in range(keys):
                    if may[b, h, t, s] and (not causal or s <= position):
                        product = sum(q[b, h, t, e] * k[b, served_by, s, e] for e in range(width))
                        scores[s] = scale * product
                weights[b, h, t] = softmax_by_hand(scores)
    return weights


def attention_by_loops(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    allowed: np.ndarray | None = None,
    *,
    causal: bool = False,
    scale: float | None = None,
) -> np.ndarray:
    """(B, H, T, width of v) context: the values, averaged by the weights."""
    weights = weights_by_loops(q, k, allowed, causal=causal, scale=scale)
    batch, heads, queries, keys = weights.shape
    context = np.zeros((batch, heads, queries, v.shape[-1]))
    for b in range(batch):
        for h in range(heads):
            for t in range(queries):
                for s in range(keys):
                    context[b, h, t] += weights[b, h, t, s] * v[b, h * v.shape[1] // heads, s]
    return context


def project_by_loops(x: np.ndarray, weight: np.ndarray, bias: np.ndarray | None) -> np.ndarray:
    """(..., in) -> (..., out), each vector alone."""
    projected = np.zeros((*x.shape[:-1], weight.shape[1]))
    for place in np.ndindex(*x.shape[:-1]):
        for column in range(weight.shape[1]):
            total = 0.0 if bias is None else bias[column]
            for row in range(weight.shape[0]):
                total += x[place][row] * weight[row, column]
            projected[place][column] = total
    return projected


def heads_by_loops(x: np.ndarray, heads: int) -> np.ndarray:
    """(B, L, heads * d) -> (B, heads, L, d): head h is columns h * d to (h + 1) * d."""
    width = x.shape[2] // heads
    return np.stack([x[:, :, h * width : (h + 1) * width] for h in range(heads)], axis=1)


def weights_of(attention: Any) -> dict[str, np.ndarray | None]:
    """`W_q` to `W_o` and `b_q` to `b_o` of a `MultiHeadAttention`; a missing bias is None."""
    found: dict[str, np.ndarray | None] = {}
    for letter, name in zip("qkvo", ("q_proj", "k_proj", "v_proj", "out_proj"), strict=True):
        linear = getattr(attention, name)
        found[f"W_{letter}"] = linear.weight.detach().numpy().T
        found[f"b_{letter}"] = None if linear.bias is None else linear.bias.detach().numpy()
    return found


def multi_head_by_loops(
    x: np.ndarray,
    weights: dict[str, Any],
    heads: int,
    kv_heads: int | None = None,
    *,
    source: np.ndarray | None = None,
    allowed: np.ndarray | None = None,
    causal: bool = False,
) -> np.ndarray:
    """(B, T, width of W_o): project, split into heads, attend, join on features, project."""
    source = x if source is None else source
    counts = {"q": heads, "k": kv_heads or heads, "v": kv_heads or heads}
    q, k, v = (
        heads_by_loops(
            project_by_loops(given, weights[f"W_{letter}"], weights[f"b_{letter}"]), counts[letter]
        )
        for letter, given in (("q", x), ("k", source), ("v", source))
    )
    context = attention_by_loops(q, k, v, allowed, causal=causal)
    joined = np.concatenate([context[:, h] for h in range(heads)], axis=-1)
    return project_by_loops(joined, weights["W_o"], weights["b_o"])


def additive_by_loops(
    states: np.ndarray,
    annotations: np.ndarray,
    w_state: np.ndarray,
    w_source: np.ndarray,
    bias: np.ndarray,
    v: np.ndarray,
    allowed: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Contexts (B, T, source width) and weights (B, T, S) of scores v . tanh(s W + h U + b).

    `allowed` is (B, T, S).
    """
    batch, queries, keys = states.shape[0], states.shape[1], annotations.shape[1]
    weights = np.zeros((batch, queries, keys))
    contexts = np.zeros((batch, queries, annotations.shape[2]))
    for b in range(batch):
        for t in range(queries):
            energies = [-math.inf] * keys
            for s in range(keys):
                if allowed is None or allowed[b, t, s]:
                    asked, read = states[b, t] @ w_state, annotations[b, s] @ w_source
                    inner = [math.tanh(x) for x in asked + read + bias]
                    energies[s] = sum(a * x for a, x in zip(v, inner, strict=True))
            weights[b, t] = softmax_by_hand(energies)
            for s in range(keys):
                contexts[b, t] += weights[b, t, s] * annotations[b, s]
    return contexts, weights
