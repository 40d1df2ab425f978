"""Muon for the matrices of the layers, AdamW for all other weights, as one optimiser.

Muon (Jordan et al. 2024, https://kellerjordan.github.io/posts/muon) takes momentum steps whose
matrices are made orthogonal, so that every direction learns at the same pace. That suits
matrices between hidden states; embeddings, the output projection, biases and norms stay with AdamW.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.optim import AdamW, Muon, Optimizer


class MuonWithAdamW(Optimizer):
    """Both in the places where Lightning, schedules and checkpoints expect a single optimiser.

    The two keep their own rules; groups and state are shared objects, so the learning rate that
    a schedule sets and the state that a checkpoint restores are theirs too.
    """

    def __init__(self, muon: Muon, adamw: AdamW) -> None:
        self.parts: tuple[Optimizer, ...] = (muon, adamw)
        super().__init__([group for part in self.parts for group in part.param_groups], {})
        self._share()

    def _share(self) -> None:
        groups = iter(self.param_groups)
        for part in self.parts:
            part.param_groups = [next(groups) for _ in part.param_groups]
            part.state = self.state

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update all weights that have a gradient; `closure` computes the gradients first."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for part in self.parts:
            part.step()
        return loss

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().load_state_dict(state_dict)
        self._share()
