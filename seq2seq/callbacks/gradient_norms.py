"""How large the gradients of each block of the model are."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import Any

import lightning as L
import torch
from torch import Tensor

from seq2seq.model.translation_model import TranslationModel
from seq2seq.training.strategy import whole
from seq2seq.training.task import TranslationTask

LAYER = re.compile(r"\d+")


class GradientNorms(L.Callback):
    """Logs `optim/grad_norm/<block>` every `trainer.log_every_n_steps` steps.

    Their squares add up to that of `optim/grad_norm`: they are norms before clipping. Blocks are
    layers, and what is beside them: embeddings, last norms, output.

    Args:
        wanted: whether anything is logged; they cost time, and all processes must agree.

    Attributes:
        since_validation: all that was logged since the last validation, by block.
    """

    def __init__(self, wanted: bool = True) -> None:
        self.wanted = wanted
        self.since_validation: dict[str, list[float]] = {}

    def state_dict(self) -> dict[str, Any]:
        return {"since_validation": self.since_validation}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.since_validation = dict(state_dict["since_validation"])

    def on_train_batch_end(
        self,
        trainer: L.Trainer,
        pl_module: L.LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
    ) -> None:
        assert isinstance(pl_module, TranslationTask)
        window = trainer.log_every_n_steps * trainer.accumulate_grad_batches  # type: ignore[attr-defined]
        if not self.wanted or (batch_idx + 1) % window or pl_module.left_out:
            return
        names, norms = zip(*block_norms(pl_module.model).items(), strict=True)
        norms_N = torch.stack(norms)
        # The gradients are still there, but clipped: all of them by the same factor.
        before = trainer.callback_metrics["optim/grad_norm"].to(norms_N.device)
        values = (norms_N * before / norms_N.norm().clamp_min(1e-30)).tolist()
        for name, value in zip(names, values, strict=True):
            pl_module.log(f"optim/grad_norm/{name}", value, rank_zero_only=True)
            self.since_validation.setdefault(name, []).append(value)

    def on_validation_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self.since_validation = {}


@torch.no_grad()
def block_norms(model: TranslationModel) -> dict[str, Tensor]:
    """The norm of the gradient of each block; every process must call it."""
    gradients = defaultdict(list)
    for name, parameter in model.named_parameters():  # each once: a shared one where it is first
        if parameter.grad is not None:
            gradients[block(name)].append(parameter.grad)
    return {
        name: whole(torch.linalg.vector_norm(torch.stack(torch._foreach_norm(grads))))
        for name, grads in gradients.items()
    }


def block(parameter: str) -> str:
    """The block that a parameter is in: `encoder.3` of `encoder.3.self_attention.q_proj.weight`."""
    top, _, rest = parameter.partition(".")
    layer = LAYER.match(rest)
    return f"{top}.{layer[0]}" if layer else top
