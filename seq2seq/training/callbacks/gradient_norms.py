"""Gradient norms of each block of the model."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from seq2seq.data.collate import Batch
from seq2seq.model.translation_model import TranslationModel
from seq2seq.training.callbacks import Callback
from seq2seq.training.sharding import full_tensor
from seq2seq.training.trainer import Trainer


class GradientNorms(Callback):
    """Logs `optim/grad_norm/<block>` every `trainer.log_every_n_steps` steps.

    These are norms before clipping: their squares add up to the square of `optim/grad_norm`. Blocks
    are the layers, and the parts beside them: embeddings, last norms, output.

    Attributes:
        since_validation: norms logged since the last validation, by block.
    """

    def __init__(self) -> None:
        self.since_validation: dict[str, list[float]] = {}

    def state_dict(self) -> dict[str, Any]:
        return {"since_validation": self.since_validation}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.since_validation = dict(state["since_validation"])

    def on_step_end(self, trainer: Trainer, batches: Sequence[Batch]) -> None:
        if not trainer.is_log_step or trainer.skipped:
            return
        names, norms = zip(*block_norms(trainer.model).items(), strict=True)
        norms_N = torch.stack(norms)
        # The gradients are clipped by now, all by the same factor: undo it for the norms.
        before = trainer.metrics["optim/grad_norm"].to(norms_N.device)
        values = (norms_N * before / norms_N.norm().clamp_min(1e-30)).tolist()
        for name, value in zip(names, values, strict=True):
            trainer.log({f"optim/grad_norm/{name}": value})
            self.since_validation.setdefault(name, []).append(value)

    def on_validation_end(self, trainer: Trainer) -> None:
        self.since_validation = {}


@torch.no_grad()
def block_norms(model: TranslationModel) -> dict[str, Tensor]:
    """Return the gradient norm of each block, 0 for one without gradients; collective."""
    gradients: defaultdict[str, list[Tensor]] = defaultdict(list)
    for name, parameter in model.named_parameters():  # a shared one once, where it is first
        gradients[block(name)] += [] if parameter.grad is None else [parameter.grad]
    none = torch.zeros((), device=parameter.device)
    return {
        name: full_tensor(torch.linalg.vector_norm(torch.stack(torch._foreach_norm(grads))))
        if grads else none
        for name, grads in gradients.items()
    }  # fmt: skip


def block(parameter: str) -> str:
    """Return a parameter's block: `encoder.3` for `encoder.3.self_attention.q_proj.weight`."""
    top, *rest = parameter.split(".")
    return f"{top}.{rest[0]}" if rest and rest[0].isdigit() else top
