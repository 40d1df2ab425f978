"""Dropout (Srivastava et al. 2014) whose random numbers are cheap on a CPU, too."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

LEVELS = 2**16  # on a CPU, a rate is rounded to one of these levels


class Dropout(nn.Module):
    """Zeroes each number with probability `rate` and divides the others by 1 - rate, in training.

    torch draws 64 bits for each element from a generator that runs on one core, which takes longer
    than a matrix product. Here one draw serves four elements with 16 bits each.
    """

    def __init__(self, rate: float):
        super().__init__()
        self.rate = rate

    def forward(self, x: Tensor) -> Tensor:
        """Drop numbers of x, of any shape, in training; otherwise return x."""
        if not self.training or not self.rate:
            return x
        if x.device.type != "cpu" or torch.compiler.is_compiling():
            return F.dropout(x, self.rate)
        return _Drop.apply(x, self.rate)  # type: ignore[no-untyped-call]


class _Drop(torch.autograd.Function):
    """Keeps 16 random bits per number for the backward pass, half the memory of factors."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, rate: float) -> Tensor:
        # Uniform from -LEVELS / 2 to LEVELS / 2 - 1.
        count = x.numel()
        bits = torch.empty(-(-count // 4), dtype=torch.int64).random_(-(2**63), None)
        levels = bits.view(torch.int16)[:count].view(x.shape)
        ctx.save_for_backward(levels)
        ctx.rate = rate
        return _keep_or_drop(x, levels, rate)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (levels,) = ctx.saved_tensors
        return _keep_or_drop(gradient, levels, ctx.rate), None


def _keep_or_drop(x: Tensor, levels: Tensor, rate: float) -> Tensor:
    """Return zero where a random level is low, with probability `rate`; else x / (1 - rate).

    The rate is rounded to a multiple of 1 / LEVELS, and the factor follows from the rounded rate.
    """
    dropped = min(round(rate * LEVELS), LEVELS - 1)
    kept = torch.empty(levels.shape, dtype=x.dtype)
    torch.ge(levels, dropped - LEVELS // 2, out=kept)
    return (x * kept).mul_(LEVELS / (LEVELS - dropped))
