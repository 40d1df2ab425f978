"""What is computed of a batch, in training and in validation."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from seq2seq.data.collate import Batch
from seq2seq.model.translation_model import TranslationModel
from seq2seq.training.loss import LossSums, translation_loss


class TranslationTask(nn.Module):
    """Maps a batch to sums of its losses; `trainer.py` divides them by the number of tokens.

    DDP wants all that uses weights inside the `forward` of the module it wraps, and the loss uses
    those of the output layer.
    """

    def __init__(self, model: TranslationModel, label_smoothing: float):
        super().__init__()
        self.model, self.label_smoothing = model, label_smoothing

    def forward(self, batch: Batch) -> LossSums:
        hidden_BTD = self.model(batch.source, batch.source_real, batch.target_in)
        return translation_loss(
            self.model, hidden_BTD, batch.labels, self.label_smoothing, batch.target_tokens
        )


def validation_nll(model: TranslationModel, batch: Batch) -> Tensor:
    """The negative log-likelihood of a batch, summed, in nats."""
    with torch.compiler.set_stance("force_eager"):  # compiling for it would take longer
        hidden_BTD = model(batch.source, batch.source_real, batch.target_in)
    return translation_loss(model, hidden_BTD, batch.labels).nll
