"""Attention: one function that attends, one module that projects.

Shapes: B batch, T queries, S keys, D model width, H query heads, K key/value heads, E width of a
head, F width of a value.
Masks are boolean, True = may attend (see `masks.py`).
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from seq2seq.model import masks
from seq2seq.model.fused_attention import for_each_query_head, fused_attention
from seq2seq.model.kv_cache import KeysValues, LayerCache
from seq2seq.model.positions import RotaryPositions


def attend(
    q_BHTE: Tensor,
    k_BKSE: Tensor,
    v_BKSF: Tensor,
    allowed: Tensor | None = None,
    dropout: float = 0.0,
    kernel: str = "sdpa",
    *,
    causal: bool = False,
) -> Tensor:
    """Compute scaled dot-product attention.

    This is softmax(q k^T / sqrt(E)) v, equation 1 of Vaswani et al. (2017).

    Args:
        q_BHTE: queries.
        k_BKSE: keys. Key/value head h // (H / K) serves query head h.
        v_BKSF: values of any width F; if F is not E, the fast kernels of a CPU do not run.
        allowed: mask that broadcasts to (B, H, T, S); None = no restriction. A query that may
            attend to no key gets a zero context.
        dropout: dropout rate of the attention weights; pass 0 outside training.
        kernel: `sdpa` (torch's fused kernels) or `reference` (the formula written out).
        causal: also hide the keys after each query's position; the last query is at the last key.

    Returns:
        Context (B, H, T, F).

    Raises:
        ValueError: the mask is not boolean, or does not broadcast to the scores.
    """
    if allowed is not None:
        masks.check(allowed, (*q_BHTE.shape[:3], k_BKSE.size(2)))
    if kernel == "reference":
        weights_BHTS = attention_weights(q_BHTE, k_BKSE, allowed, causal=causal)
        return F.dropout(weights_BHTS, dropout) @ for_each_query_head(v_BKSF, q_BHTE)
    return fused_attention(q_BHTE, k_BKSE, v_BKSF, allowed, dropout, causal)


def attention_weights(
    q_BHTE: Tensor, k_BKSE: Tensor, allowed: Tensor | None = None, *, causal: bool = False
) -> Tensor:
    """Return the weights (B, H, T, S) by which `attend` averages values, computed as in the paper.

    Each row sums to 1, or to 0 if the query may attend to no key. Arguments as for `attend`.
    """
    if causal:
        order = masks.causal(q_BHTE.size(2), k_BKSE.size(2), q_BHTE.device)
        allowed = masks.combine(allowed, order)
    k_BHSE = for_each_query_head(k_BKSE, q_BHTE)
    scores_BHTS = q_BHTE @ k_BHSE.transpose(-1, -2) * (1.0 / math.sqrt(q_BHTE.size(-1)))
    return masked_softmax(scores_BHTS, allowed)


def masked_softmax(scores: Tensor, allowed: Tensor | None) -> Tensor:
    """Compute the softmax of the allowed scores in the last dimension; all other weights are zero.

    Scores of -inf would give NaN in a row without an allowed place, and NaN gradients in all
    tensors of that row, even if the loss skips the row. The smallest finite number gives neither.

    Args:
        scores: (..., S).
        allowed: broadcasts to the scores; None = all.
    """
    if allowed is None:
        return scores.softmax(dim=-1)
    scores = scores.masked_fill(~allowed, torch.finfo(scores.dtype).min)
    return scores.softmax(dim=-1) * allowed


class HeadNorm(nn.RMSNorm):
    """RMS norm of each head (Zhang and Sennrich 2019), with a trained gain.

    The gain is cast to the type of the input, because otherwise torch's fused kernel does not run
    under autocast. Epsilon is a fixed number, so that a model is the same in every precision.
    """

    def forward(self, x_BHLE: Tensor) -> Tensor:
        """Normalise each head of x (B, H, L, E)."""
        gain_E = self.weight.to(x_BHLE.dtype)
        return F.rms_norm(x_BHLE, self.normalized_shape, gain_E, self.eps)


class MultiHeadAttention(nn.Module):
    """Multi-head attention over itself or over another sequence (section 3.2.2 of the paper).

    If `n_kv_heads` equals `n_heads`, it is multi-head attention; a divisor makes it grouped-query
    (Ainslie et al. 2023), and 1 multi-query attention (Shazeer 2019)::

               multi-head         grouped-query       multi-query
               K = H = 4          K = 2               K = 1
        q      0   1   2   3      0   1   2   3       0   1   2   3
               |   |   |   |       \\ /     \\ /         \\   \\ /   /
        k, v   0   1   2   3        0       1               0

    Query head h owns the columns h * E to (h + 1) * E of the query projection.

    Args:
        d_model: width of the input and of the output.
        n_heads: query heads H.
        n_kv_heads: key/value heads K; None = as many as query heads.
        head_dim: width E of a head; None = d_model / n_heads.
        dropout: dropout rate of the attention weights, in training.
        qk_norm: normalise each head's queries and keys, which bounds the scores (after Henry et
            al. 2020).
        norm_eps: epsilon that these norms add to the mean square.
        kernel: see `attend`.

    Raises:
        ValueError: `n_heads` does not divide `d_model` and `head_dim` is None, or `n_kv_heads` does
            not divide `n_heads`.
    """

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        n_kv_heads: int | None = None,
        head_dim: int | None = None,
        *,
        dropout: float = 0.0,
        qk_norm: bool = False,
        norm_eps: float = torch.finfo(torch.float32).eps,
        kernel: str = "sdpa",
    ):
        super().__init__()
        n_kv_heads = n_heads if n_kv_heads is None else n_kv_heads
        if head_dim is None and d_model % n_heads:
            raise ValueError(
                f"d_model={d_model} is not a multiple of n_heads={n_heads}: change one, or set "
                "head_dim"
            )
        if n_heads % n_kv_heads:
            raise ValueError(
                f"n_kv_heads={n_kv_heads} does not divide n_heads={n_heads}: each key/value head "
                "serves an equal group of query heads; choose a divisor"
            )
        self.head_dim = d_model // n_heads if head_dim is None else head_dim
        self.dropout = dropout
        self.kernel = kernel
        self.q_proj = nn.Linear(d_model, n_heads * self.head_dim)
        self.k_proj = nn.Linear(d_model, n_kv_heads * self.head_dim)
        self.v_proj = nn.Linear(d_model, n_kv_heads * self.head_dim)
        self.out_proj = nn.Linear(n_heads * self.head_dim, d_model)
        self.q_norm = HeadNorm(self.head_dim, eps=norm_eps) if qk_norm else None
        self.k_norm = HeadNorm(self.head_dim, eps=norm_eps) if qk_norm else None

    def forward(
        self,
        x_BTD: Tensor,
        memory: Tensor | KeysValues | None = None,
        allowed: Tensor | None = None,
        *,
        causal: bool = False,
        rotary: RotaryPositions | None = None,
        cache: LayerCache | None = None,
    ) -> Tensor:
        """Attend from each position of x to x itself, or to a memory; return (B, T, D).

        Args:
            x_BTD: the sequence that makes the queries.
            memory: the other sequence (B, S, D), or its `keys_values`; None = x itself.
            allowed: mask over the keys, those of the cache included; broadcasts to (B, H, T, S).
            causal: hide later positions; self-attention only.
            rotary: rotary positions for queries and keys; self-attention only.
            cache: keys and values before x, to which those of x are appended; self-attention only.

        Raises:
            ValueError: the arguments do not fit together.
        """
        q_BHTE, k_BKSE, v_BKSE = self._project(x_BTD, memory, causal, rotary, cache)
        dropout = self.dropout if self.training else 0.0
        context_BHTE = attend(q_BHTE, k_BKSE, v_BKSE, allowed, dropout, self.kernel, causal=causal)
        joined_BTP = context_BHTE.transpose(1, 2).flatten(-2)  # P = H * E
        return self.out_proj(joined_BTP)

    def weights(
        self,
        x_BTD: Tensor,
        memory: Tensor | KeysValues | None = None,
        allowed: Tensor | None = None,
        *,
        causal: bool = False,
        **options: Any,
    ) -> Tensor:
        """Return the weights (B, H, T, S) of `forward` with the same arguments, before dropout."""
        q_BHTE, k_BKSE, _ = self._project(x_BTD, memory, causal, **options)
        return attention_weights(q_BHTE, k_BKSE, allowed, causal=causal)

    def queries(self, x_BTD: Tensor) -> Tensor:
        """Return the queries (B, H, T, E) of x."""
        return self._split(self.q_proj(x_BTD), self.q_norm)

    def keys_values(self, memory_BSD: Tensor) -> KeysValues:
        """Return the keys and values (B, K, S, E) of a memory that queries will read."""
        k_BSP, v_BSP = self.k_proj(memory_BSD), self.v_proj(memory_BSD)  # P = K * E
        return KeysValues(self._split(k_BSP, self.k_norm), self._split(v_BSP))

    def _project(
        self,
        x_BTD: Tensor,
        memory: Tensor | KeysValues | None,
        causal: bool,
        rotary: RotaryPositions | None = None,
        cache: LayerCache | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return queries (B, H, T, E) of x, and the keys and values (B, K, S, E) that they read."""
        if memory is not None:
            if causal or rotary is not None or cache is not None:
                raise ValueError(
                    "causal, rotary and cache belong to self-attention: the places of a query and "
                    "of a memory do not compare; leave out either them or the memory"
                )
            k_BKSE, v_BKSE = memory if isinstance(memory, KeysValues) else self.keys_values(memory)
            return self.queries(x_BTD), k_BKSE, v_BKSE
        q_BTP, k_BTP, v_BTP = self._project_self(x_BTD)  # P = heads * E
        q_BHTE = self._split(q_BTP, self.q_norm)
        k_BKTE, v_BKTE = self._split(k_BTP, self.k_norm), self._split(v_BTP)
        if rotary is not None:
            start = 0 if cache is None else cache.position
            q_BHTE, k_BKTE = rotary(q_BHTE, start), rotary(k_BKTE, start)
        if cache is None:
            return q_BHTE, k_BKTE, v_BKTE
        k_BKSE, v_BKSE = cache.append(k_BKTE, v_BKTE)
        return q_BHTE, k_BKSE, v_BKSE

    def _project_self(self, x_BTD: Tensor) -> tuple[Tensor, ...]:
        """Return queries (B, T, H * E), keys and values (B, T, K * E) of x itself."""
        return self.q_proj(x_BTD), self.k_proj(x_BTD), self.v_proj(x_BTD)

    def _split(self, x_BLP: Tensor, norm: HeadNorm | None = None) -> Tensor:
        """Split into heads: (B, L, heads * E) -> (B, heads, L, E); then normalise, if asked."""
        batch, length, width = x_BLP.shape
        x_BLHE = x_BLP.view(batch, length, width // self.head_dim, self.head_dim)
        x_BHLE = x_BLHE.transpose(1, 2)
        return x_BHLE if norm is None else norm(x_BHLE)
