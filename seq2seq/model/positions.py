"""How a transformer knows the position of a token: sinusoidal, learned or rotary positions."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn


def frequencies(width: int) -> Tensor:
    """Return (width / 2,) angular speeds 10000^(-2i/width) (Vaswani et al. 2017, section 3.5)."""
    return 10000.0 ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)


def sinusoidal_table(length: int, width: int, halves: bool = False) -> Tensor:
    """Return a (length, width) table of sines and cosines, alternating (section 3.5 of the paper).

    With `halves`, all sines come before all cosines, as in Marian.
    """
    angles = torch.arange(length, dtype=torch.float64)[:, None] * frequencies(width)
    waves = angles.sin(), angles.cos()
    table = torch.cat(waves, dim=-1) if halves else torch.stack(waves, dim=-1).flatten(-2)
    return table.float()


def lookup(table: Tensor, start: int | Tensor, length: int) -> Tensor:
    """Return the rows of a table (limit, W) that belong to positions.

    Args:
        table: one row for each position.
        start: position of the first of `length` consecutive tokens; or of each token, (B, L).

    Returns:
        (L, W), or (B, L, W).

    Raises:
        ValueError: a position is past the limit. Positions in a tensor are not checked, because
            reading them would stall a GPU.
    """
    if isinstance(start, Tensor):
        return table[start]
    if start + length > table.size(0):
        raise ValueError(
            f"position {start + length - 1} lies past the model's limit of {table.size(0)} tokens "
            "(model.max_length): split the text or train with a larger limit"
        )
    return table[start : start + length]


class SinusoidalPositions(nn.Module):
    """Adds fixed sines and cosines to embeddings (B, L, D)."""

    table: Tensor

    def __init__(self, max_length: int, d_model: int, halves: bool = False):
        super().__init__()
        table = sinusoidal_table(max_length, d_model, halves)
        self.register_buffer("table", table, persistent=False)

    def forward(self, x_BLD: Tensor, start: int | Tensor = 0) -> Tensor:
        """Return x (B, L, D) plus the vectors of its positions; errors as of `lookup`.

        `start` is the first position, or that of each token (B, L).
        """
        return x_BLD + lookup(self.table, start, x_BLD.size(1)).to(x_BLD.dtype)


class LearnedPositions(nn.Module):
    """Adds one trained vector per position to embeddings (B, L, D)."""

    def __init__(self, max_length: int, d_model: int):
        super().__init__()
        self.embedding = nn.Embedding(max_length, d_model)

    def forward(self, x_BLD: Tensor, start: int | Tensor = 0) -> Tensor:
        """Return x (B, L, D) plus the vectors of its positions, as `SinusoidalPositions` does."""
        return x_BLD + lookup(self.embedding.weight, start, x_BLD.size(1))


class RotaryPositions(nn.Module):
    """Rotates queries and keys by an angle that grows with position (Su et al. 2021, RoFormer).

    The product of a query at i and a key at j then depends on i - j alone. The angles are float32
    in every precision of the model: bf16 could not tell far positions from their neighbours.
    """

    cos: Tensor
    sin: Tensor

    def __init__(self, max_length: int, head_dim: int):
        super().__init__()
        places_L = torch.arange(max_length, dtype=torch.float64)
        angles_LW = places_L[:, None] * frequencies(head_dim)  # W = E / 2
        self.register_buffer("cos", angles_LW.cos().float(), persistent=False)
        self.register_buffer("sin", angles_LW.sin().float(), persistent=False)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> RotaryPositions:
        """Follow the model to another device, but not to another precision."""
        for name, table in list(self.named_buffers()):
            moved = fn(table)
            setattr(self, name, moved if moved.dtype == table.dtype else table.to(moved.device))
        return self

    def forward(self, x_BHLE: Tensor, start: int | Tensor = 0) -> Tensor:
        """Rotate (B, H, L, E); `start` is the first position, or that of each token (B, L)."""
        cos, sin = (lookup(table, start, x_BHLE.size(2)) for table in (self.cos, self.sin))
        if cos.dim() == 3:  # positions of each sentence, the same for all heads
            cos, sin = cos[:, None], sin[:, None]
        first, second = x_BHLE[..., 0::2], x_BHLE[..., 1::2]
        # Half precision times float32 gives float32.
        turned = (first * cos - second * sin, first * sin + second * cos)
        return torch.stack(turned, dim=-1).flatten(-2).to(x_BHLE.dtype)
