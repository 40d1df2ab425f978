"""Attention one number at a time: scores, softmax and weighted sum as plain loops.

Shapes as in `seq2seq.model.attention`: q (B, H, T, E), k (B, K, S, E), v (B, K, S, any width).
"""

from __future__ import annotations

import math

import numpy as np


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
                scores = {}
                for s in range(keys):
                    if may[b, h, t, s] and (not causal or s <= position):
                        product = sum(q[b, h, t, e] * k[b, served_by, s, e] for e in range(width))
                        scores[s] = scale * product
                total = sum(math.exp(score) for score in scores.values())
                for s, score in scores.items():
                    weights[b, h, t, s] = math.exp(score) / total
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
