"""Attention masks: pure functions, one meaning everywhere. **True = may attend.**

A mask broadcasts against attention scores of shape (B, H, queries, keys).
"""

from __future__ import annotations

import torch
from torch import Tensor


def padding(real_BS: Tensor) -> Tensor:
    """Let every query see the real keys only.

    Args:
        real_BS: (B, S), True (or non-zero) where a token is real.

    Returns:
        (B, 1, 1, S) boolean; for two sentences of 3 and 2 tokens::

            x x x
            x x .
    """
    return real_BS.to(torch.bool)[:, None, None, :]


def causal(queries: int, keys: int, device: torch.device | None = None) -> Tensor:
    """Let each query see the keys up to its own position, the last query being the last key.

    With `keys > queries` the first keys are the past kept in a cache.

    Returns:
        (1, 1, queries, keys) boolean; 3 queries over 5 keys::

            x x x . .
            x x x x .
            x x x x x
    """
    if queries > keys:
        raise ValueError(
            f"{queries} queries cannot be the last of {keys} keys: causal attention needs "
            "at least as many keys as queries"
        )
    allowed = torch.ones(queries, keys, dtype=torch.bool, device=device)
    return allowed.tril(diagonal=keys - queries)[None, None]


def combine(*masks: Tensor | None) -> Tensor | None:
    """What all given masks allow; None = no restriction."""
    allowed: Tensor | None = None
    for mask in masks:
        if mask is not None:
            allowed = mask if allowed is None else allowed & mask
    return allowed
