"""Linear layers whose matrix is laid out once as oneDNN's products read it, not at each call.

For the few rows of a decoding step, whose matrices come from memory each time, that is a third
faster than `F.linear` with 64 rows and three times as fast with 5. It is an operation of torch that
torch.compile calls for linear layers with frozen weights.
"""

from __future__ import annotations

import platform
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

ROWS = 64  # of the products that matrices are packed for; others are as fast
LARGE, FEW = 2**20, 4  # matrices of so many numbers are read faster for 4 rows than for fewer


def can_pack() -> bool:
    """Whether torch has oneDNN's packed products here, on a processor that they were tried on."""
    if platform.machine().lower() not in ("x86_64", "amd64"):
        return False
    there: bool = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    return there and hasattr(torch.ops.mkldnn, "_linear_pointwise")


class PackedLinear(nn.Module):
    """A linear layer that cannot be trained.

    Args:
        weight: (D_out, D_in) in float32 or bfloat16 on a CPU; it is copied.
        bias: (D_out,), or None.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None):
        super().__init__()
        self.out_features, self.in_features = weight.shape
        self.weight = torch.ops.mkldnn._reorder_linear_weight(weight.detach(), ROWS)
        self.bias = None if bias is None else bias.detach()
        self.is_large = weight.numel() >= LARGE

    @classmethod
    def joined(cls, parts: Sequence[PackedLinear]) -> PackedLinear:
        """One layer that gives what several give, side by side; all have a bias, or none has."""
        biases = [part.bias for part in parts if part.bias is not None]
        weight = torch.cat([part.weight.to_dense() for part in parts])
        return cls(weight, torch.cat(biases) if biases else None)

    def forward(self, x: Tensor) -> Tensor:
        """(..., D_in) -> (..., D_out)."""
        if self.is_large and x.dim() == 2 and len(x) < FEW:
            return self._product(F.pad(x, (0, 0, 0, FEW - len(x))))[: len(x)]
        return self._product(x)

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        """As a plain layer has it, so that no weights are missing in what is saved."""
        destination[f"{prefix}weight"] = self.weight.to_dense()
        if self.bias is not None:
            destination[f"{prefix}bias"] = self.bias

    def _product(self, x: Tensor) -> Tensor:
        product: Tensor = torch.ops.mkldnn._linear_pointwise(
            x, self.weight, self.bias, "none", [], ""
        )
        return product
