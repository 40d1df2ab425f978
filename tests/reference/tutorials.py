"""What tutorials add to attention and a translation model does not need, as functions over ours.

Shapes as in `seq2seq.model.attention`; M memory entries.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from seq2seq.model import masks
from seq2seq.model.attention import MultiHeadAttention, attend
from seq2seq.model.kv_cache import KeysValues, KVCache, LayerCache, TransformerState
from seq2seq.model.transformer import Transformer


def scaled(q_BHTE: Tensor, scale: float | None) -> Tensor:
    """Queries whose scores `attend` multiplies by this scale in all; None = 1/sqrt(E)."""
    return q_BHTE if scale is None else q_BHTE * (scale * math.sqrt(q_BHTE.size(-1)))


def per_query(allowed: Tensor) -> Tensor:
    """A mask (1 or B, 1, T, S) that lets each query see keys of its own.

    Args:
        allowed: (T, S) for all sentences, or (B, T, S); True (or 1) = may attend. A mask with the
            batch last, (T, S, B), comes here by `.permute(2, 0, 1)`.
    """
    return allowed.bool().reshape(-1, 1, *allowed.shape[-2:])


def read_width(attention: MultiHeadAttention, width: int) -> MultiHeadAttention:
    """Let an attention read memories of this width, in place of its own: new projections."""
    for name in ("k_proj", "v_proj"):
        old = getattr(attention, name)
        setattr(attention, name, nn.Linear(width, old.out_features, old.bias is not None))
    return attention


def without_biases(attention: MultiHeadAttention) -> MultiHeadAttention:
    """Take the biases from all projections of an attention."""
    for part in ("q", "k", "v", "out"):
        attention.get_submodule(f"{part}_proj").register_parameter("bias", None)
    return attention


def with_entries(
    attention: MultiHeadAttention,
    x_BTD: Tensor,
    entries: KeysValues,
    allowed: Tensor | None = None,
    *,
    causal: bool = False,
    cache: LayerCache | None = None,
) -> Tensor:
    """Self-attention that also reads given keys and values, which stand before all others.

    Args:
        attention: projects x.
        entries: (K, M, E) each, the same for all sentences. Every query sees them, causal or not.
        allowed: mask over the other keys, (B, 1 or H, 1 or T, S).
        causal, cache: as for the attention itself. Entries are no positions of a cache.
    """
    q_BHTE, own = attention.queries(x_BTD), attention.keys_values(x_BTD)
    if cache is not None:
        own = cache.append(*own)
    keys = own.k.size(2)
    k_BKSE, v_BKSE = (
        torch.cat([given.expand(len(x_BTD), -1, -1, -1).to(part.dtype), part], dim=2)
        for given, part in zip(entries, own, strict=True)
    )
    if causal:
        allowed = masks.combine(allowed, masks.causal(x_BTD.size(1), keys))
    if allowed is not None:
        allowed = allowed.expand(*allowed.shape[:3], keys)
        allowed = F.pad(allowed, (entries.k.size(1), 0), value=True)
    dropout = attention.dropout if attention.training else 0.0
    context_BHTE = attend(q_BHTE, k_BKSE, v_BKSE, allowed, dropout, attention.kernel)
    joined_BTD: Tensor = attention.out_proj(context_BHTE.transpose(1, 2).flatten(2))
    return joined_BTD


class PaddedPrefixes:
    """Decodes prefixes of several lengths, which are aligned at their ends: padded on the left.

    Positions count real tokens only, and nobody sees the others.

    Args:
        model: its layers are run.
        state: of the sources.
    """

    def __init__(self, model: Transformer, state: TransformerState):
        self.model, self.state = model, state
        self.real_RL: Tensor | None = None  # of the target so far

    def decode(self, target_RT: Tensor, real_RT: Tensor) -> Tensor:
        """Hidden states (R, T, D) of further tokens, which are appended."""
        before = real_RT[:, :0] if self.real_RL is None else self.real_RL
        real_RL = torch.cat([before, real_RT], dim=1)
        new, length = real_RT.size(1), real_RL.size(1)
        positions_RT = (real_RL.cumsum(dim=1)[:, -new:] - 1).clamp(min=0)
        allowed = masks.combine(masks.padding(real_RL), masks.causal(new, length))
        x_RTD = self.model.target_embedding(target_RT, positions_RT)
        for i, layer in enumerate(self.model.decoder):
            x_RTD = layer(
                x_RTD,
                self.state.source[i],
                self.state.source_allowed,
                self.model.rotary,  # what counts is the distance, so it may count padding
                self.state.cache.layer(i),
                allowed,
            )
        self.real_RL = real_RL
        hidden: Tensor = self.model.decoder_norm(x_RTD)
        return hidden

    def keep(self, sentences: Tensor, rows: Tensor) -> None:
        """Drop all sentences and hypotheses but these."""
        self.state.keep(sentences, rows)
        if self.real_RL is not None:
            self.real_RL = self.real_RL.index_select(0, rows)


def started_again(state: TransformerState) -> TransformerState:
    """The same source with an empty target; the old state keeps its own."""
    cache = KVCache(state.cache.layers, state.cache.capacity)
    return TransformerState(state.source, state.source_allowed, cache)
