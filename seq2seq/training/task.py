"""What is computed of a batch, in training and in validation."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from seq2seq.config import OptimConfig
from seq2seq.data.collate import Batch
from seq2seq.data.tokenizer import PAD
from seq2seq.model.translation_model import TranslationModel
from seq2seq.training.loss import divergence, translation_loss


class TranslationTask(nn.Module):
    """Maps a batch to sums of its losses; `trainer.py` divides them by the number of tokens.

    Args:
        model: the network.
        optim: label smoothing and R-Drop; optimiser and schedule for the trainer.
    """

    def __init__(self, model: TranslationModel, optim: OptimConfig):
        super().__init__()
        self.model, self.optim = model, optim

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Sums over the real target tokens of a batch of training.

        Returns:
            What is minimised, with gradient; the negative log-likelihood in nats, without.
        """
        if self.optim.r_drop:
            return self._r_drop_loss(batch)
        hidden_BTD = self.model(batch.source, batch.source_real, batch.target_in)
        sums = translation_loss(
            self.model,
            hidden_BTD,
            batch.labels,
            self.optim.label_smoothing,
            num_tokens=batch.target_tokens,
        )
        return sums.smoothed, sums.nll

    def _r_drop_loss(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """The mean loss of two passes under two draws of dropout, plus their divergence.

        Equation 4 of Liang et al. 2021, per pass: the second half of the batch is the first again.
        """
        model, optim, num_tokens = self.model, self.optim, batch.target_tokens
        source_BS, target_in_BT, labels_BT = (
            side.repeat(2, 1) for side in (batch.source, batch.target_in, batch.labels)
        )
        hidden_BTD = model(source_BS, source_BS != PAD, target_in_BT)
        sums = translation_loss(
            model, hidden_BTD, labels_BT, optim.label_smoothing, num_tokens=2 * num_tokens
        )
        kl = divergence(model, hidden_BTD, labels_BT, num_tokens)
        return (sums.smoothed + optim.r_drop / 2 * kl) / 2, sums.nll / 2


def validation_nll(model: TranslationModel, batch: Batch) -> Tensor:
    """The negative log-likelihood of a batch, summed, in nats."""
    with torch.compiler.set_stance("force_eager"):  # compiling for it would take longer
        hidden_BTD = model(batch.source, batch.source_real, batch.target_in)
    return translation_loss(model, hidden_BTD, batch.labels).nll
