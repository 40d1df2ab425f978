"""Settings of the optimiser, its schedule and the loss (`optim.*`)."""

from __future__ import annotations

from typing import Any

from seq2seq.config.checked import SHARE, Checked, setting


class OptimConfig(Checked, section="optim"):
    """The optimiser, its schedule after a linear warm-up, and what is added to the loss.

    Lengths are steps (updates of the weights) or text such as 2epochs or 50Mtokens.
    """

    optimizer: str = setting(
        "adamw", "adamw, or muon: Muon for matrices of the layers, AdamW for the rest",
        choices=("adamw", "muon"),
    )  # fmt: skip
    schedule: str = setting(
        "inverse_sqrt", "inverse_sqrt (Vaswani et al., 5.3), cosine, wsd (warm-up, stable, decay)",
        choices=("inverse_sqrt", "cosine", "wsd"),
    )  # fmt: skip
    lr: float | None = setting(
        None, "peak learning rate; null = the paper's (d_model * warmup_steps) ** -0.5", above=0
    )
    warmup_steps: Any = setting(
        4000, "length of the first part, in which the rate rises to its peak", length=True
    )
    decay_steps: Any = setting(
        None, "length of the last part, in which the rate falls; null = a fifth of the run",
        length=True, only_with="schedule=wsd",
    )  # fmt: skip
    final_lr_ratio: float = setting(
        0.0, "rate at the end, as a share of the peak", **SHARE,
        only_with="schedule=cosine or wsd",
    )  # fmt: skip
    beta1: float = setting(0.9, "AdamW: decay of the first moment", **SHARE)
    beta2: float = setting(0.98, "AdamW: decay of the second moment", **SHARE)
    eps: float = setting(1e-9, "AdamW: small number that prevents division by zero", above=0)
    weight_decay: float = setting(
        0.0, "weight decay of matrices; biases and norms have none", at_least=0
    )
    label_smoothing: float = setting(0.1, "probability spread evenly over the vocabulary", **SHARE)
    ema: float = setting(
        0.0, "decay of the moving average of the weights, which is evaluated and shipped; 0 = off",
        **SHARE,
    )  # fmt: skip

    def decay_length(self, total_steps: int) -> int:
        """Return the steps of the decay of wsd; `decay_steps` is a number of steps, or None."""
        return self.decay_steps or max(1, round(total_steps / 5))
