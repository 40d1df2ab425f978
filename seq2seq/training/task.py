"""What is computed of a batch, in training and in validation."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from seq2seq.config import OptimConfig
from seq2seq.data.collate import Batch
from seq2seq.model.translation_model import TranslationModel
from seq2seq.training.loss import translation_loss


class TranslationTask(nn.Module):
    """Maps a batch to sums of its losses; `trainer.py` divides them by the number of tokens."""

    def __init__(self, model: TranslationModel, optim: OptimConfig):
        super().__init__()
        self.model, self.optim = model, optim

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Sums over the real target tokens of a batch of training.

        Returns:
            What is minimised, with gradient; the negative log-likelihood in nats, without.
        """
        hidden_BTD = self.model(batch.source, batch.source_real, batch.target_in)
        sums = translation_loss(
            self.model,
            hidden_BTD,
            batch.labels,
            self.optim.label_smoothing,
            num_tokens=batch.target_tokens,
        )
        return sums.smoothed, sums.nll


def validation_nll(model: TranslationModel, batch: Batch) -> Tensor:
    """The negative log-likelihood of a batch, summed, in nats."""
    with torch.compiler.set_stance("force_eager"):  # compiling for it would take longer
        hidden_BTD = model(batch.source, batch.source_real, batch.target_in)
    return translation_loss(model, hidden_BTD, batch.labels).nll
