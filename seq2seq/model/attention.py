"""Attention: one function that attends, one module that projects.

Shapes: B batch, T queries, S keys, D model width, H query heads, K key/value heads,
E width of a head. Masks are boolean, True = may attend (see `masks.py`).
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from seq2seq.model import masks
from seq2seq.model.cache import LayerCache
from seq2seq.model.positions import RotaryPositions


def attend(
    q_BHTE: Tensor,
    k_BKSE: Tensor,
    v_BKSE: Tensor,
    allowed: Tensor | None = None,
    *,
    causal: bool = False,
    dropout: float = 0.0,
    scale: float | None = None,
) -> Tensor:
    """Scaled dot-product attention by torch's fused kernels (Vaswani et al. 2017, eq. 1).

    Args:
        q_BHTE: queries. Key/value head `h // (H // K)` serves query head h.
        k_BKSE, v_BKSE: keys and values; values may have another width.
        allowed: mask of two or more dimensions, broadcastable to (B, H, T, S); None = no
            restriction.
        causal: query t also sees no key after its own, the last query being the last key.
        dropout: rate of dropping attention weights; give 0 outside training.
        scale: factor on the scores; 1/sqrt(E) by default.

    Returns:
        Context (B, H, T, width of v).
    """
    queries, keys = q_BHTE.size(2), k_BKSE.size(2)
    if causal and queries > 1 and (allowed is not None or queries != keys):
        # SDPA's own causal flag aligns to the first key and must not meet a mask.
        allowed = masks.combine(allowed, masks.causal(queries, keys, q_BHTE.device))
    grouped = k_BKSE.size(1) != q_BHTE.size(1)
    if grouped and allowed is not None:
        # A mask would send native grouped heads to the slow kernel, so repeat them here.
        group = q_BHTE.size(1) // k_BKSE.size(1)
        k_BKSE = k_BKSE.repeat_interleave(group, dim=1)
        v_BKSE = v_BKSE.repeat_interleave(group, dim=1)
    return F.scaled_dot_product_attention(
        q_BHTE,
        k_BKSE,
        v_BKSE,
        attn_mask=allowed,
        dropout_p=dropout,
        is_causal=causal and allowed is None and queries > 1,
        scale=scale,
        enable_gqa=grouped and allowed is None,
    )


def attention_weights(
    q_BHTE: Tensor, k_BKSE: Tensor, allowed: Tensor | None = None, scale: float | None = None
) -> Tensor:
    """The weights (B, H, T, S) that `attend` gives the values, written out.

    A query that may see nothing gets zero weights rather than NaN.
    """
    k_BHSE = k_BKSE.repeat_interleave(q_BHTE.size(1) // k_BKSE.size(1), dim=1)
    scale = 1.0 / math.sqrt(q_BHTE.size(-1)) if scale is None else scale
    scores = q_BHTE @ k_BHSE.transpose(-1, -2) * scale
    if allowed is None:
        return scores.softmax(dim=-1)
    scores = scores.masked_fill(~allowed, torch.finfo(scores.dtype).min)
    return scores.softmax(dim=-1) * allowed


class MultiHeadAttention(nn.Module):
    """Multi-head attention over itself or over another sequence (section 3.2.2 of the paper).

    `n_kv_heads` equal to `n_heads` is multi-head, a divisor of it grouped-query
    (Ainslie et al. 2023), 1 multi-query attention (Shazeer 2019).
    """

    def __init__(
        self, d_model: int, n_heads: int, n_kv_heads: int | None = None, dropout: float = 0.0
    ):
        super().__init__()
        n_kv_heads = n_heads if n_kv_heads is None else n_kv_heads
        if d_model % n_heads:
            raise ValueError(f"d_model={d_model} is not a multiple of n_heads={n_heads}")
        if n_kv_heads < 1 or n_heads % n_kv_heads:
            raise ValueError(f"n_kv_heads={n_kv_heads} does not divide n_heads={n_heads}")
        self.head_dim = d_model // n_heads
        self.dropout = dropout
        self.q_proj = nn.Linear(d_model, n_heads * self.head_dim)
        self.k_proj = nn.Linear(d_model, n_kv_heads * self.head_dim)
        self.v_proj = nn.Linear(d_model, n_kv_heads * self.head_dim)
        self.out_proj = nn.Linear(n_heads * self.head_dim, d_model)

    def split_heads(self, x_BLD: Tensor) -> Tensor:
        """(B, L, heads * E) -> (B, heads, L, E)."""
        batch, length, width = x_BLD.shape
        return x_BLD.view(batch, length, width // self.head_dim, self.head_dim).transpose(1, 2)

    def keys_values(self, source_BSD: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values (B, K, S, E) of a source that queries will read."""
        return self.split_heads(self.k_proj(source_BSD)), self.split_heads(self.v_proj(source_BSD))

    def self_attention(
        self,
        x_BTD: Tensor,
        allowed: Tensor | None = None,
        *,
        causal: bool = False,
        rotary: RotaryPositions | None = None,
        cache: LayerCache | None = None,
    ) -> Tensor:
        """Attend from each position of x (B, T, D) to x itself, and to the cached past."""
        q, (k, v) = self.split_heads(self.q_proj(x_BTD)), self.keys_values(x_BTD)
        if rotary is not None:
            start = 0 if cache is None else cache.length
            q, k = rotary(q, start), rotary(k, start)
        if cache is not None:
            k, v = cache.append(k, v)
        return self._attend_and_join(q, k, v, allowed, causal)

    def cross_attention(
        self, x_BTD: Tensor, k_BKSE: Tensor, v_BKSE: Tensor, allowed: Tensor | None = None
    ) -> Tensor:
        """Attend from x (B, T, D) to a source given as its `keys_values`."""
        q = self.split_heads(self.q_proj(x_BTD))
        return self._attend_and_join(q, k_BKSE, v_BKSE, allowed, causal=False)

    def _attend_and_join(
        self, q: Tensor, k: Tensor, v: Tensor, allowed: Tensor | None, causal: bool
    ) -> Tensor:
        dropout = self.dropout if self.training else 0.0
        context_BHTE = attend(q, k, v, allowed, causal=causal, dropout=dropout)
        joined: Tensor = self.out_proj(context_BHTE.transpose(1, 2).flatten(-2))
        return joined
