"""An exponential moving average of the weights: what is validated and shipped when it is on."""

from __future__ import annotations

from typing import Any

import lightning as L
import torch
from torch import Tensor

from seq2seq.training.task import TranslationTask


class EMA(L.Callback):
    """Keeps shadow weights, and lends them to the model while it is validated.

    After update number t (from 0) of the weights w, shadow = d * shadow + (1 - d) * w, where
    d = min(decay, (1 + t) / (10 + t)) lets the average forget the random start soon (the rule of
    TensorFlow's ExponentialMovingAverage). Processes hold equal weights, so they hold equal
    shadows. A step that was left out does not count.

    Callbacks that validate or save must stand behind this one: their checkpoints, saved after a
    step or at the end of a validation, then hold the raw weights beside the shadow.

    Args:
        decay: of the average; its memory is 1 / (1 - decay) steps.
    """

    def __init__(self, decay: float):
        self.decay = decay
        self.updates = 0
        self.shadow: dict[str, Tensor] = {}  # in 32 bits, tied weights once
        self._raw: list[Tensor] | None = None  # the model's own weights while it is validated
        self._step = 0

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        loaded = self.shadow  # of a checkpoint, if the run goes on
        self.shadow = {
            name: loaded.get(name, weight).detach().to(weight.device, torch.float32, copy=True)
            for name, weight in _weights(pl_module).items()
        }
        self._step = trainer.global_step

    @torch.no_grad()
    def on_train_batch_end(
        self,
        trainer: L.Trainer,
        pl_module: L.LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
    ) -> None:
        if trainer.global_step == self._step:
            return  # an update is still being gathered
        self._step = trainer.global_step
        assert isinstance(pl_module, TranslationTask)
        if pl_module.left_out:
            return
        decay = min(self.decay, (1 + self.updates) / (10 + self.updates))
        weights = [weight.float() for weight in _weights(pl_module).values()]
        torch._foreach_lerp_(list(self.shadow.values()), weights, 1 - decay)
        self.updates += 1

    @torch.no_grad()
    def on_validation_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        weights = list(_weights(pl_module).values())
        self._raw = [weight.detach().clone() for weight in weights]
        torch._foreach_copy_(weights, list(self.shadow.values()))

    @torch.no_grad()
    def on_validation_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        if self._raw is not None:
            torch._foreach_copy_(list(_weights(pl_module).values()), self._raw)
            self._raw = None

    def state_dict(self) -> dict[str, Any]:
        return {"updates": self.updates, "shadow": self.shadow}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.updates, self.shadow = state_dict["updates"], dict(state_dict["shadow"])


def _weights(pl_module: L.LightningModule) -> dict[str, Tensor]:
    """The parameters by name, tied ones once."""
    assert isinstance(pl_module, TranslationTask)
    return dict(pl_module.model.named_parameters())
