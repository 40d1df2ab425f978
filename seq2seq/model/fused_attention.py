"""Attention by torch's fused kernels, called so that a fast kernel runs.

Shapes as in `attention.py`.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from seq2seq.model import masks

HALF = (torch.bfloat16, torch.float16)  # types that flash attention accepts on a GPU


def for_each_query_head(x_BKSE: Tensor, q_BHTE: Tensor) -> Tensor:
    """Repeat heads, (B, K, S, E) -> (B, H, S, E): neighbouring query heads read the same head."""
    return x_BKSE.repeat_interleave(q_BHTE.size(1) // x_BKSE.size(1), dim=1)


def fused_attention(
    q_BHTE: Tensor,
    k_BKSE: Tensor,
    v_BKSF: Tensor,
    allowed: Tensor | None,
    dropout: float,
    causal: bool,
) -> Tensor:
    """Compute `attend` by torch's SDPA, whose fast kernels never store the attention weights."""
    arguments = fused_arguments(q_BHTE, k_BKSE, v_BKSF, allowed, causal)
    if q_BHTE.dtype in HALF and q_BHTE.device.type == "cpu" and torch.is_grad_enabled():
        # On a CPU, the fused kernel's backward pass takes ten times as long in half precision.
        for name in ("query", "key", "value"):
            arguments[name] = arguments[name].float()
    with _surroundings(q_BHTE):
        context = F.scaled_dot_product_attention(**arguments, dropout_p=dropout)
    return context.to(q_BHTE.dtype).reshape(*q_BHTE.shape[:3], v_BKSF.size(3))


def fused_arguments(
    q_BHTE: Tensor, k_BKSE: Tensor, v_BKSF: Tensor, allowed: Tensor | None, causal: bool
) -> dict[str, Any]:
    """Return arguments for torch's SDPA that give the same result on its fast path.

    - Its causal flag aligns the first query to the first key and excludes a mask, so it is used
      only for a whole sequence without mask. A single query is the last one and sees all keys.
    - Query heads that share a key/value head become further queries of that head if one mask
      fits them all: every kernel accepts that, and neither keys nor values are copied.
    - Otherwise heads stay grouped if torch's flash kernel accepts groups; if not, keys and values
      are repeated.
    """
    heads, queries, kv_heads, keys = *q_BHTE.shape[1:3], *k_BKSE.shape[1:3]
    is_causal = False
    if causal and allowed is None and 1 < queries == keys:
        is_causal = True  # a bool; torch.compile sees the condition as a symbol
    if causal and queries > 1 and not is_causal:
        allowed = masks.combine(allowed, masks.causal(queries, keys, q_BHTE.device))
    grouped = heads != kv_heads
    if grouped and not is_causal and (allowed is None or allowed.shape[1:3] == (1, 1)):
        batch, _, _, width = q_BHTE.shape
        q_BHTE = q_BHTE.reshape(batch, kv_heads, heads // kv_heads * queries, width)
        grouped = False
    elif grouped and q_BHTE.is_cuda and (allowed is not None or q_BHTE.dtype not in HALF):
        k_BKSE, v_BKSF = (for_each_query_head(x, q_BHTE) for x in (k_BKSE, v_BKSF))
        grouped = False
    return {
        "query": q_BHTE,
        "key": k_BKSE,
        "value": v_BKSF,
        "attn_mask": allowed,
        "is_causal": is_causal,
        "enable_gqa": grouped,
    }


def _surroundings(q: Tensor) -> AbstractContextManager[Any]:
    """Return the context for the kernel: on a CPU no autocast; on a GPU no cuDNN.

    cuDNN plans each new shape anew, which took about half of each training step on an H200. With a
    mask, its gradients are NaN for some lengths on H100 and H200 (pytorch issue 196678).
    """
    if q.is_cuda:
        return sdpa_kernel(
            [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
        )
    if torch.is_autocast_enabled("cpu"):
        return torch.autocast("cpu", enabled=False)
    return nullcontext()


def fused_backend(
    q_BHTE: Tensor,
    k_BKSE: Tensor,
    v_BKSF: Tensor,
    allowed: Tensor | None = None,
    dropout: float = 0.0,
    *,
    causal: bool = False,
) -> str:
    """Name torch's kernel that `attend` would run: flash, efficient, or the slow math."""
    arguments = fused_arguments(q_BHTE, k_BKSE, v_BKSF, allowed, causal)
    with _surroundings(q_BHTE):
        chosen = torch._fused_sdp_choice(**arguments, dropout_p=dropout)
    return SDPBackend(chosen).name.removesuffix("_ATTENTION").lower()
