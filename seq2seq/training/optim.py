"""Optimisers (AdamW, or Muon with AdamW), parameter groups, schedules of the learning rate."""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import groupby
from operator import attrgetter
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import AdamW, Optimizer

from seq2seq.config import OptimConfig
from seq2seq.inference.engines.torch import cpu_has

# Muon: decay of the momentum, and the polynomial that `orthogonal` iterates.
MOMENTUM = 0.95
ITERATIONS, COEFFICIENTS = 5, (3.4445, -4.7750, 2.0315)
BY_SHAPE = attrgetter("shape")


def peak_learning_rate(config: OptimConfig, d_model: int) -> float:
    """Return `optim.lr` or, if it is None, the paper's peak: (d_model * warm-up steps) ** -0.5."""
    return 1 / math.sqrt(d_model * config.warmup_steps) if config.lr is None else config.lr


def share_of_peak(step: int, config: OptimConfig, total_steps: int) -> float:
    """Return the share of the peak rate at a step, counted from 0; the lengths are in steps.

    All schedules rise linearly over the warm-up and reach the peak, 1, at its last update. cosine
    and wsd reach `final_lr_ratio` at the last update of the run, and stay there.

    - inverse_sqrt falls as 1/sqrt(step): section 5.3 of Vaswani et al. 2017.
    - cosine falls by half a period, without restarts: Loshchilov & Hutter 2017.
    - wsd stays, then decays: Hu et al. 2024. The decay is 1 - sqrt: Hägele et al. 2024 find that it
      beats a straight line, and that 10 to 20 % of the steps are enough for it.
    """
    step, warmup, final = step + 1, int(config.warmup_steps), config.final_lr_ratio
    if step <= warmup:
        return step / warmup
    if config.schedule == "inverse_sqrt":
        return math.sqrt(warmup / step)
    if config.schedule == "cosine":
        done = min(1.0, (step - warmup) / (total_steps - warmup))
        return final + (1 - final) * (1 + math.cos(math.pi * done)) / 2
    decay = config.decay_length(total_steps)
    done = min(1.0, max(0, step - (total_steps - decay)) / decay)
    return final + (1 - final) * (1 - math.sqrt(done))


def make_optimizer(model: nn.Module, config: OptimConfig, d_model: int) -> Optimizer:
    """Make AdamW, or Muon with AdamW; weight decay acts on matrices, not on biases and norms."""
    rate = peak_learning_rate(config, d_model)
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    hidden = hidden_matrices(model) if config.optimizer == "muon" else set()
    rest = [parameter for parameter in parameters if parameter not in hidden]
    groups = [
        {"params": [p for p in rest if p.dim() > 1], "weight_decay": config.weight_decay},
        {"params": [p for p in rest if p.dim() <= 1], "weight_decay": 0.0},
    ]
    adamw = AdamW(
        groups,
        lr=rate,
        betas=(config.beta1, config.beta2),
        eps=config.eps,
        fused=True,  # one pass over the memory: 6 to 8 times faster than other versions on a CPU
    )
    optimizer: Optimizer = adamw
    if config.optimizer == "muon":
        matrices = [parameter for parameter in parameters if parameter in hidden]
        optimizer = MuonWithAdamW(Muon(matrices, rate, config.weight_decay), adamw)
    # Gradients are clipped after unscaling, so the fused step must not unscale them again.
    optimizer._step_supports_amp_scaling = False  # type: ignore[attr-defined]
    return optimizer


def hidden_matrices(model: nn.Module) -> set[Tensor]:
    """Return the weights of linear maps between hidden states: all but the output projection."""
    linear = (m for m in model.modules() if isinstance(m, nn.Linear) and m is not model.output)
    return {module.weight for module in linear if module.weight.requires_grad}


class Muon(Optimizer):
    """Muon makes the matrix of each momentum step orthogonal, so all directions learn equally.

    The method: Jordan et al. 2024, https://kellerjordan.github.io/posts/muon. The length of a step:
    Liu et al. 2025, section 2.2. `torch.optim.Muon` computes the same, but always multiplies in
    bf16: on a CPU without instructions for bf16, that takes ten times as long as all the rest of a
    step.

    Args:
        matrices: weights between hidden states, each (outputs, inputs).
        lr: the length of a step; a rate that suits AdamW suits Muon, too.
        weight_decay: decoupled from the gradient, as in AdamW.

    Attributes:
        found_inf: (), 1 = skip the step, 0 = make it, so that the host need not wait for a verdict;
            None = make it. torch's fused AdamW reads the same name.
    """

    found_inf: Tensor | None = None

    def __init__(self, matrices: Iterable[Tensor], lr: float, weight_decay: float) -> None:
        super().__init__(matrices, {"lr": lr, "weight_decay": weight_decay, "momentum": MOMENTUM})

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]
        """Update all matrices that have a gradient, those of equal shape together."""
        for group in self.param_groups:
            with_gradient = [m for m in group["params"] if m.grad is not None]
            for _, matrices in groupby(sorted(with_gradient, key=BY_SHAPE), BY_SHAPE):
                self._update([*matrices], group)

    def _update(self, matrices: list[Tensor], group: dict[str, Any]) -> None:
        lr, momentum = group["lr"], group["momentum"]
        for matrix in matrices:
            if "momentum_buffer" not in self.state[matrix]:
                self.state[matrix]["momentum_buffer"] = torch.zeros_like(matrix)
        gradients = torch.stack([m.grad for m in matrices if m.grad is not None])
        means = [self.state[matrix]["momentum_buffer"] for matrix in matrices]
        decay = lr * group["weight_decay"]
        skip = self.found_inf
        if skip is not None:
            # Gradients that equal the means leave the means as they are, and are finite.
            gradients = torch.where(skip > 0, torch.stack(means), gradients)
            decay = decay * (1 - skip)
        torch._foreach_lerp_(means, gradients.unbind(), 1 - momentum)
        nesterov = gradients.lerp(torch.stack(means), momentum)
        updates = orthogonal(nesterov).to(matrices[0].dtype)
        if skip is not None:
            updates = updates * (1 - skip)
        torch._foreach_mul_(matrices, 1 - decay)
        length = lr * 0.2 * math.sqrt(max(matrices[0].shape))
        torch._foreach_add_(matrices, updates.unbind(), alpha=-length)


def orthogonal(matrices: Tensor) -> Tensor:
    """Return about U Vᵀ for each matrix U S Vᵀ: singular values near 1, between 0.6 and 1.3.

    Each Newton–Schulz iteration applies an odd polynomial to the singular values, in bf16 if the
    device has instructions for it, else in fp32.

    Args:
        matrices: (n, rows, columns).
    """
    fast = matrices.device.type != "cpu" or cpu_has("bfloat16")
    a, b, c = COEFFICIENTS
    x = matrices.to(torch.bfloat16 if fast else torch.float32, copy=True)
    tall = x.size(1) > x.size(2)
    x = x.mT if tall else x  # so that x @ x.mT is the smaller product
    x.div_(x.norm(dim=(1, 2), keepdim=True).clamp(min=1e-7))
    for _ in range(ITERATIONS):
        square = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(square, square, square, beta=b, alpha=c), x, beta=a)
    return x.mT if tall else x


class MuonWithAdamW(Optimizer):
    """Muon for the matrices of the layers, AdamW for all other weights, as one optimiser.

    Muon suits matrices between hidden states; embeddings, the output projection, biases and norms
    stay with AdamW.

    Attributes:
        found_inf: see `Muon`.
    """

    found_inf: Tensor | None = None

    def __init__(self, muon: Muon, adamw: AdamW) -> None:
        self.muon, self.adamw = muon, adamw
        super().__init__([*muon.param_groups, *adamw.param_groups], {})

    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Update all weights that have a gradient."""
        matrices, *rest = self.param_groups  # a state that is loaded brings new groups
        for part, groups in ((self.muon, [matrices]), (self.adamw, rest)):
            part.param_groups, part.state = groups, self.state
            part.found_inf = self.found_inf  # type: ignore[union-attr]
            part.step()
