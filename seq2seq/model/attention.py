"""Attention: one function that attends, one module that projects.

Shapes: B batch, T queries, S keys, D model width, H query heads, K key/value heads, E width of a
head, F width of a value.
Masks are boolean, True = may attend (see `masks.py`).
"""

from __future__ import annotations

import math
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from seq2seq.config import KERNELS
from seq2seq.errors import nearest
from seq2seq.model import masks
from seq2seq.model.cache import KeysValues, LayerCache
from seq2seq.model.positions import RotaryPositions

HALF = (torch.bfloat16, torch.float16)  # what flash attention takes on a GPU


def attend(
    q_BHTE: Tensor,
    k_BKSE: Tensor,
    v_BKSF: Tensor,
    allowed: Tensor | None = None,
    dropout: float = 0.0,
    scale: float | None = None,
    kernel: str = "sdpa",
    *,
    causal: bool = False,
    need_weights: bool = False,
) -> Any:
    """Scaled dot-product attention, softmax(q k^T * scale) v (Vaswani et al. 2017, eq. 1).

    Args:
        q_BHTE: queries.
        k_BKSE: keys. Key/value head h // (H / K) serves query head h.
        v_BKSF: values, of any width; other than E it rules out the fast kernels of a CPU.
        allowed: mask that broadcasts to (B, H, T, S); None = no restriction. A query that may
            see nothing has a zero context.
        dropout: rate of dropping attention weights; give 0 outside training.
        scale: factor on the scores; 1/sqrt(E) by default.
        kernel: `sdpa`, torch's fused kernels, or `reference`, written out.
        causal: query t also sees no key after its own, the last query being the last key.
        need_weights: also return the weights before dropout; only `reference` has them.

    Returns:
        Context (B, H, T, F); with `need_weights`, a pair with the weights (B, H, T, S).

    Raises:
        ValueError: sizes that do not fit together, or a mask that does not fit them.
    """
    _check(q_BHTE, k_BKSE, v_BKSF, allowed, dropout, kernel, causal)
    if kernel == "reference":
        context, weights = _reference(q_BHTE, k_BKSE, v_BKSF, allowed, dropout, scale, causal)
        return (context, weights) if need_weights else context
    if need_weights:
        raise ValueError("the fused kernel never makes the weights: give kernel='reference'")
    arguments = _fused_arguments(q_BHTE, k_BKSE, v_BKSF, allowed, causal)
    on_cpu = q_BHTE.device.type == "cpu"
    if on_cpu and q_BHTE.dtype in HALF and torch.is_grad_enabled():
        # There the fused kernel's backward pass takes ten times as long in half precision.
        for name in ("query", "key", "value"):
            arguments[name] = arguments[name].float()
    autocast = on_cpu and torch.is_autocast_enabled("cpu")
    with (
        _backends(q_BHTE, arguments["attn_mask"]),
        torch.autocast("cpu", enabled=False) if autocast else nullcontext(),
    ):
        context = F.scaled_dot_product_attention(**arguments, dropout_p=dropout, scale=scale)
    return context.to(q_BHTE.dtype).reshape(*q_BHTE.shape[:3], v_BKSF.size(3))


def _reference(
    q_BHTE: Tensor,
    k_BKSE: Tensor,
    v_BKSF: Tensor,
    allowed: Tensor | None,
    dropout: float,
    scale: float | None,
    causal: bool,
) -> tuple[Tensor, Tensor]:
    """Attention as in the paper, line by line: context and weights."""
    if causal:
        order = masks.causal(q_BHTE.size(2), k_BKSE.size(2), q_BHTE.device)
        allowed = masks.combine(allowed, order)
    group = q_BHTE.size(1) // k_BKSE.size(1)
    k_BHSE, v_BHSF = (x.repeat_interleave(group, dim=1) for x in (k_BKSE, v_BKSF))
    scale = 1.0 / math.sqrt(q_BHTE.size(-1)) if scale is None else scale
    scores_BHTS = q_BHTE @ k_BHSE.transpose(-1, -2) * scale
    weights_BHTS = masked_softmax(scores_BHTS, allowed)
    return F.dropout(weights_BHTS, dropout) @ v_BHSF, weights_BHTS


def masked_softmax(scores: Tensor, allowed: Tensor | None) -> Tensor:
    """Softmax over the last dimension, where allowed; zeros where nothing is.

    Scores of -inf would give NaN in a row without any allowed place, and NaN gradients to all
    that it touches, even if the loss skips the row; the smallest finite number gives neither.
    """
    if allowed is None:
        return scores.softmax(dim=-1)
    scores = scores.masked_fill(~allowed, torch.finfo(scores.dtype).min)
    return scores.softmax(dim=-1) * allowed


def _fused_arguments(
    q_BHTE: Tensor, k_BKSE: Tensor, v_BKSF: Tensor, allowed: Tensor | None, causal: bool
) -> dict[str, Any]:
    """Arguments that give torch's SDPA the same task, on its fast path.

    - Its causal flag aligns to the first key and must not meet a mask, so it is used only for
      a whole sequence without mask; a single query is the last one and sees all keys.
    - Queries that share a key/value head become further queries of that head where one mask
      fits them all: every kernel takes that, and neither keys nor values are copied.
    - Else heads stay grouped where torch's flash kernel takes them so, or keys and values are
      repeated.
    """
    heads, queries, kv_heads, keys = *q_BHTE.shape[1:3], *k_BKSE.shape[1:3]
    is_causal = False
    if causal and allowed is None and 1 < queries == keys:
        is_causal = True  # not the condition itself, which is a symbol to torch.compile
    if causal and queries > 1 and not is_causal:
        allowed = masks.combine(allowed, masks.causal(queries, keys, q_BHTE.device))
    grouped = heads != kv_heads
    if grouped and not is_causal and (allowed is None or allowed.shape[1:3] == (1, 1)):
        batch, _, _, width = q_BHTE.shape
        q_BHTE = q_BHTE.reshape(batch, kv_heads, heads // kv_heads * queries, width)
        grouped = False
    elif grouped and q_BHTE.is_cuda and (allowed is not None or q_BHTE.dtype not in HALF):
        k_BKSE, v_BKSF = (x.repeat_interleave(heads // kv_heads, dim=1) for x in (k_BKSE, v_BKSF))
        grouped = False
    return {
        "query": q_BHTE,
        "key": k_BKSE,
        "value": v_BKSF,
        "attn_mask": allowed,
        "is_causal": is_causal,
        "enable_gqa": grouped,
    }


def _backends(q: Tensor, allowed: Tensor | None) -> AbstractContextManager[None]:
    """cuDNN's kernel is ruled out beside a mask.

    Its gradients are NaN for some lengths on H100 and H200 (pytorch issue 196678).
    """
    if allowed is None or not q.is_cuda:
        return nullcontext()
    fast = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
    chosen: AbstractContextManager[None] = sdpa_kernel(fast)
    return chosen


def fused_backend(
    q_BHTE: Tensor,
    k_BKSE: Tensor,
    v_BKSF: Tensor,
    allowed: Tensor | None = None,
    dropout: float = 0.0,
    *,
    causal: bool = False,
) -> str:
    """The kernel of torch that `attend` would run: flash, efficient, cudnn, or the slow math."""
    arguments = _fused_arguments(q_BHTE, k_BKSE, v_BKSF, allowed, causal)
    with _backends(q_BHTE, arguments["attn_mask"]):
        chosen = torch._fused_sdp_choice(**arguments, dropout_p=dropout)
    return SDPBackend(chosen).name.removesuffix("_ATTENTION").lower()


def _check(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    allowed: Tensor | None,
    dropout: float,
    kernel: str,
    causal: bool,
) -> None:
    q_shape, k_shape, v_shape = q.shape, k.shape, v.shape
    if not len(q_shape) == len(k_shape) == len(v_shape) == 4:
        raise ValueError(f"q, k and v are (batch, heads, length, width), got {_shapes(q, k, v)}")
    if not q_shape[0] == k_shape[0] == v_shape[0]:
        raise ValueError(f"the batches of q, k and v differ: {_shapes(q, k, v)}")
    if k_shape[:3] != v_shape[:3]:
        raise ValueError(f"every key needs one value, but the numbers differ: {_shapes(q, k, v)}")
    if q_shape[3] != k_shape[3]:
        raise ValueError(
            f"queries and keys are multiplied, so their widths must agree: {_shapes(q, k, v)}"
        )
    if not k_shape[1] or q_shape[1] % k_shape[1]:
        raise ValueError(
            f"{k_shape[1]} key/value heads do not divide {q_shape[1]} query heads: each serves an "
            "equal group"
        )
    _check_options(dropout, kernel)
    if allowed is not None:
        masks.check(allowed, (*q_shape[:3], k_shape[2]))
    if causal:
        masks.check_order(q_shape[2], k_shape[2])


def _check_options(dropout: float, kernel: str) -> None:
    if not 0.0 <= dropout < 1.0:
        raise ValueError(f"dropout={dropout} is no probability: give a number from 0 to below 1")
    if kernel not in KERNELS:
        raise ValueError(f"kernel={kernel} is not known: {nearest(kernel, KERNELS)}")


def _shapes(q: Tensor, k: Tensor, v: Tensor) -> str:
    return f"q {tuple(q.shape)}, k {tuple(k.shape)}, v {tuple(v.shape)}"


class MultiHeadAttention(nn.Module):
    """Multi-head attention over itself or over another sequence (section 3.2.2 of the paper).

    `n_kv_heads` equal to `n_heads` is multi-head, a divisor of it grouped-query
    (Ainslie et al. 2023), 1 multi-query attention (Shazeer 2019). Query head h owns the columns
    h * E to (h + 1) * E of the query projection.

    Args:
        d_model: width of the input and of the output.
        n_heads: query heads H.
        n_kv_heads: key/value heads K; None = as many as query heads.
        head_dim: width E of a head; None = d_model / n_heads.
        source_dim: width of the sequence that is attended to; None = d_model.
        dropout: rate of dropping attention weights, in training.
        bias: whether the projections have biases.
        qk_norm: normalise each head's queries and keys, which bounds the scores (after Henry et
            al. 2020; RMS norm with a trained gain).
        kernel: of `attend`.

    Raises:
        ValueError: sizes that do not divide.
    """

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        n_kv_heads: int | None = None,
        head_dim: int | None = None,
        source_dim: int | None = None,
        *,
        dropout: float = 0.0,
        bias: bool = True,
        qk_norm: bool = False,
        kernel: str = "sdpa",
    ):
        super().__init__()
        n_kv_heads = n_heads if n_kv_heads is None else n_kv_heads
        source_dim = d_model if source_dim is None else source_dim
        sizes = {"d_model": d_model, "n_heads": n_heads, "source_dim": source_dim}
        if head_dim is not None:
            sizes["head_dim"] = head_dim
        for name, size in sizes.items():
            if size < 1:
                raise ValueError(f"{name}={size} is too small: it must be at least 1")
        if head_dim is None and d_model % n_heads:
            raise ValueError(
                f"d_model={d_model} is not a multiple of n_heads={n_heads}: change one, or set "
                "head_dim"
            )
        if n_kv_heads < 1 or n_heads % n_kv_heads:
            raise ValueError(
                f"n_kv_heads={n_kv_heads} does not divide n_heads={n_heads}: each key/value head "
                "serves an equal group of query heads; choose a divisor"
            )
        self.head_dim = d_model // n_heads if head_dim is None else head_dim
        _check_options(dropout, kernel)
        self.dropout = dropout
        self.kernel = kernel
        self.q_proj = nn.Linear(d_model, n_heads * self.head_dim, bias)
        self.k_proj = nn.Linear(source_dim, n_kv_heads * self.head_dim, bias)
        self.v_proj = nn.Linear(source_dim, n_kv_heads * self.head_dim, bias)
        self.out_proj = nn.Linear(n_heads * self.head_dim, d_model, bias)
        self.q_norm = nn.RMSNorm(self.head_dim) if qk_norm else nn.Identity()
        self.k_norm = nn.RMSNorm(self.head_dim) if qk_norm else nn.Identity()

    def forward(
        self,
        x_BTD: Tensor,
        source: Tensor | KeysValues | None = None,
        allowed: Tensor | None = None,
        *,
        causal: bool = False,
        rotary: RotaryPositions | None = None,
        positions_BT: Tensor | None = None,
        cache: LayerCache | None = None,
        memory: KeysValues | None = None,
        need_weights: bool = False,
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Attend from each position of x to x itself, or to a source.

        Args:
            x_BTD: where the queries come from.
            source: (B, S, source width), or the `keys_values` of it; None = x itself.
            allowed: mask over the keys (of the cache, too), which broadcasts to (B, H, T, S).
            causal: no position sees a later one; self-attention only.
            rotary: positions to turn queries and keys to; self-attention only.
            positions_BT: where each token stands, for `rotary`; None = after the cached past.
            cache: the past of x, to which x is appended; self-attention only.
            memory: given keys and values (K, M, E), the same for all sentences, that stand
                before all others and are seen by every query.
            need_weights: also return the weights (B, H, T, M + S), from the reference kernel.

        Returns:
            (B, T, D); with `need_weights`, a pair with the weights.

        Raises:
            ValueError: arguments that do not fit together.
        """
        if x_BTD.dim() != 3 or x_BTD.size(2) != self.q_proj.in_features:
            raise ValueError(
                f"x is (batch, length, d_model = {self.q_proj.in_features}), got "
                f"{tuple(x_BTD.shape)}"
            )
        if positions_BT is not None and rotary is None:
            raise ValueError("positions_BT says where rotary positions turn to: give rotary, too")
        q = self.q_norm(self._split_heads(self.q_proj(x_BTD)))
        if source is None:
            k, v = self.keys_values(x_BTD)
            if rotary is not None:
                past = 0 if cache is None else cache.length
                start = past if positions_BT is None else positions_BT
                q, k = rotary(q, start), rotary(k, start)
        elif causal or rotary is not None or cache is not None:
            raise ValueError(
                "causal, rotary and cache belong to self-attention: the places of a query and of "
                "a source do not compare; leave out either them or the source"
            )
        else:
            k, v = source if isinstance(source, KeysValues) else self.keys_values(source)
        if memory is not None:
            _check_memory(memory, k)
        if cache is not None:
            k, v = cache.append(k, v, memory)
        elif memory is not None:
            k, v = (
                torch.cat([given.expand(k.size(0), -1, -1, -1), own], dim=2)
                for given, own in zip(memory, (k, v), strict=True)
            )
        entries = 0 if memory is None else memory.k.size(-2)
        entries = entries if cache is None else cache.entries
        if allowed is not None and entries:
            allowed = _see_memory(allowed, entries, k.size(2))
        dropout = self.dropout if self.training else 0.0
        kernel = "reference" if need_weights else self.kernel
        attended = attend(
            q, k, v, allowed, dropout, kernel=kernel, causal=causal, need_weights=need_weights
        )
        context_BHTE, weights = attended if need_weights else (attended, None)
        joined_BTD: Tensor = self.out_proj(context_BHTE.transpose(1, 2).flatten(-2))
        return joined_BTD if weights is None else (joined_BTD, weights)

    def keys_values(self, source_BSD: Tensor) -> KeysValues:
        """Keys and values (B, K, S, E) of a source that queries will read."""
        if source_BSD.dim() != 3 or source_BSD.size(2) != self.k_proj.in_features:
            raise ValueError(
                f"a source is (batch, length, width = {self.k_proj.in_features}), got "
                f"{tuple(source_BSD.shape)}"
            )
        k = self.k_norm(self._split_heads(self.k_proj(source_BSD)))
        return KeysValues(k, self._split_heads(self.v_proj(source_BSD)))

    def _split_heads(self, x_BLD: Tensor) -> Tensor:
        """(B, L, heads * E) -> (B, heads, L, E)."""
        batch, length, width = x_BLD.shape
        return x_BLD.view(batch, length, width // self.head_dim, self.head_dim).transpose(1, 2)


def _check_memory(memory: KeysValues, k_BKSE: Tensor) -> None:
    _, kv_heads, _, width = k_BKSE.shape
    for given in memory:
        if given.shape != (kv_heads, memory.k.size(-2), width):
            raise ValueError(
                f"memory is keys and values of shape (kv heads, entries, head width) = "
                f"({kv_heads}, M, {width}), got {tuple(given.shape)}"
            )


def _see_memory(allowed: Tensor, entries: int, keys: int) -> Tensor:
    """A mask over all `keys`, of which the first are memory entries that every query sees."""
    if allowed.size(-1) == 1:  # one answer for all keys, but never for the memory
        allowed = allowed.expand(*allowed.shape[:-1], keys - entries)
    return F.pad(allowed, (entries, 0), value=True)
