"""Attention masks: pure functions, one meaning everywhere. **True = may attend.**

A mask is boolean and broadcasts against attention scores of shape (B, H, queries, keys). All
functions return new tensors (or views) and leave their arguments as they are.
"""

from __future__ import annotations

import torch
from torch import Tensor


def padding(real_BS: Tensor) -> Tensor:
    """Let every query see the real keys only.

    Args:
        real_BS: (B, S), True where a token is real, False where it pads.

    Returns:
        (B, 1, 1, S) boolean; for two sentences of 3 and 2 tokens::

            x x x
            x x .
    """
    return real_BS.bool()[:, None, None, :]


def causal(queries: int, keys: int, device: torch.device | None = None) -> Tensor:
    """Let each query see the keys up to its own position; the last query is at the last key.

    If `keys > queries`, the first keys are earlier positions from a cache.

    Returns:
        (1, 1, queries, keys) boolean; 3 queries over 5 keys::

            x x x . .
            x x x x .
            x x x x x

    Raises:
        ValueError: there are more queries than keys.
    """
    if queries > keys:
        raise ValueError(
            f"{queries} queries cannot be the last of {keys} keys: causal attention needs "
            "at least as many keys as queries"
        )
    allowed = torch.ones(queries, keys, dtype=torch.bool, device=device)
    return allowed.tril(diagonal=keys - queries)[None, None]


def combine(*masks: Tensor | None) -> Tensor | None:
    """Allow what all given masks allow; None = no restriction."""
    allowed: Tensor | None = None
    for mask in masks:
        if mask is not None:
            allowed = mask if allowed is None else allowed & mask
    return allowed


def check(allowed: Tensor, full: tuple[int, ...]) -> None:
    """Raise ValueError unless a mask is boolean and broadcasts to the shape of the scores.

    Args:
        allowed: the mask.
        full: (batch, heads, queries, keys).
    """
    if allowed.dtype != torch.bool:
        raise ValueError(
            f"a mask is boolean, True = may attend, got {allowed.dtype}: masks.padding makes one "
            "of zeros and ones"
        )
    if allowed.dim() != len(full) or any(
        size not in (1, most) for size, most in zip(allowed.shape, full, strict=True)
    ):
        raise ValueError(
            f"a mask of shape {tuple(allowed.shape)} does not broadcast to (batch, heads, queries, "
            f"keys) = {full}: give all 4 dimensions, each full or 1; masks.padding makes them of "
            "(batch, keys), and mask[:, None] of (batch, queries, keys)"
        )
