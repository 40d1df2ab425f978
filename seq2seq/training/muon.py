"""Muon: makes the matrix of each momentum step orthogonal, so that all directions learn equally.

The method: Jordan et al. 2024, https://kellerjordan.github.io/posts/muon. The length of a step:
Liu et al. 2025, section 2.2. `torch.optim.Muon` computes the same, but always multiplies in bf16:
on a CPU without instructions for bf16, that takes ten times as long as all the rest of a step.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import Tensor
from torch.optim import Optimizer

from seq2seq.inference.engines.torch import cpu_has

MOMENTUM = 0.95
ITERATIONS, COEFFICIENTS = 5, (3.4445, -4.7750, 2.0315)


class Muon(Optimizer):
    """The Muon optimiser, for weight matrices between hidden states.

    Args:
        matrices: the weights, each (outputs, inputs).
        lr: the length of a step; a rate that suits AdamW suits Muon, too.
        weight_decay: decoupled from the gradient, as in AdamW.
    """

    def __init__(self, matrices: Iterable[Tensor], lr: float, weight_decay: float) -> None:
        super().__init__(matrices, {"lr": lr, "weight_decay": weight_decay, "momentum": MOMENTUM})

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]
        """Update all matrices that have a gradient."""
        for group in self.param_groups:
            lr, momentum = group["lr"], group["momentum"]
            for matrix in group["params"]:
                if matrix.grad is None:
                    continue
                state = self.state[matrix]
                if "momentum_buffer" not in state:
                    state["momentum_buffer"] = torch.zeros_like(matrix.grad)
                mean = state["momentum_buffer"].lerp_(matrix.grad, 1 - momentum)
                update = orthogonal(matrix.grad.lerp(mean, momentum))  # Nesterov's momentum
                matrix.mul_(1 - lr * group["weight_decay"])
                matrix.add_(update, alpha=-lr * 0.2 * math.sqrt(max(matrix.shape)))


def orthogonal(matrix: Tensor) -> Tensor:
    """Return about U Vᵀ for the matrix U S Vᵀ: singular values near 1, between 0.6 and 1.3.

    Each Newton–Schulz iteration applies an odd polynomial to the singular values, in bf16 if the
    device has instructions for it, else in fp32.
    """
    fast = matrix.device.type != "cpu" or cpu_has("bfloat16")
    a, b, c = COEFFICIENTS
    x = matrix.to(torch.bfloat16 if fast else torch.float32, copy=True)
    tall = x.size(0) > x.size(1)
    x = x.T if tall else x  # so that x @ x.T is the smaller product
    x.div_(x.norm().clamp(min=1e-7))
    for _ in range(ITERATIONS):
        square = x @ x.T
        x = torch.addmm(x, torch.addmm(square, square, square, beta=b, alpha=c), x, beta=a)
    return x.T if tall else x
