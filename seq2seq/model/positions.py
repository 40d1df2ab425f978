"""How a transformer learns where a token stands: sinusoidal, learned or rotary positions."""

from __future__ import annotations

import torch
from torch import Tensor, nn


def frequencies(width: int) -> Tensor:
    """(width / 2,) angular speeds 10000^(-2i/width) (Vaswani et al. 2017, section 3.5)."""
    return 10000.0 ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)


def sinusoidal_table(length: int, width: int) -> Tensor:
    """(length, width) table of sines and cosines, alternating (section 3.5 of the paper)."""
    angles = torch.arange(length, dtype=torch.float64)[:, None] * frequencies(width)
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-2).float()


def check_range(start: int, length: int, limit: int) -> None:
    if start + length > limit:
        raise ValueError(
            f"position {start + length - 1} lies past the model's limit of {limit} tokens "
            "(model.max_length): split the text or train with a larger limit"
        )


class SinusoidalPositions(nn.Module):
    """Adds fixed sines and cosines to embeddings (B, L, D)."""

    table: Tensor

    def __init__(self, max_length: int, d_model: int):
        super().__init__()
        self.register_buffer("table", sinusoidal_table(max_length, d_model), persistent=False)

    def forward(self, x_BLD: Tensor, start: int = 0) -> Tensor:
        check_range(start, x_BLD.size(1), self.table.size(0))
        return x_BLD + self.table[start : start + x_BLD.size(1)].to(x_BLD.dtype)


class LearnedPositions(nn.Module):
    """Adds one trained vector per position to embeddings (B, L, D)."""

    def __init__(self, max_length: int, d_model: int):
        super().__init__()
        self.embedding = nn.Embedding(max_length, d_model)

    def forward(self, x_BLD: Tensor, start: int = 0) -> Tensor:
        check_range(start, x_BLD.size(1), self.embedding.num_embeddings)
        index = torch.arange(start, start + x_BLD.size(1), device=x_BLD.device)
        embedded: Tensor = self.embedding(index)
        return x_BLD + embedded


class RotaryPositions(nn.Module):
    """Turns queries and keys by an angle that grows with position (Su et al. 2021, RoFormer).

    The product of a query at i and a key at j then depends on i - j alone.
    """

    cos: Tensor
    sin: Tensor

    def __init__(self, max_length: int, head_dim: int):
        super().__init__()
        if head_dim % 2:
            raise ValueError(f"rotary positions turn pairs: a head width of {head_dim} is odd")
        angles = torch.arange(max_length, dtype=torch.float64)[:, None] * frequencies(head_dim)
        self.register_buffer("cos", angles.cos().float(), persistent=False)
        self.register_buffer("sin", angles.sin().float(), persistent=False)

    def forward(self, x_BHLE: Tensor, start: int = 0) -> Tensor:
        length = x_BHLE.size(2)
        check_range(start, length, self.cos.size(0))
        cos = self.cos[start : start + length].to(x_BHLE.dtype)
        sin = self.sin[start : start + length].to(x_BHLE.dtype)
        first, second = x_BHLE[..., 0::2], x_BHLE[..., 1::2]
        turned = (first * cos - second * sin, first * sin + second * cos)
        return torch.stack(turned, dim=-1).flatten(-2)
