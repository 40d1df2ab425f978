"""The Lightning module: what is computed of a batch, in training and in validation."""

from __future__ import annotations

import lightning as L
import torch
from torch import Tensor
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR

from seq2seq.config import OptimConfig
from seq2seq.data.collate import Batch
from seq2seq.data.tokenizer import PAD
from seq2seq.model.translation_model import TranslationModel
from seq2seq.training.loss import LossSums, divergence, translation_loss
from seq2seq.training.optim import make_optimizer, make_schedule


class TranslationTask(L.LightningModule):
    """Maps a batch to sums of its losses; `trainer.py` divides them by the number of tokens.

    Args:
        model: the network.
        optim: optimiser, schedule, label smoothing and R-Drop; lengths in steps.
        max_steps: of the whole run, which the schedule needs.
    """

    def __init__(self, model: TranslationModel, optim: OptimConfig, max_steps: int):
        super().__init__()
        self.model, self.optim, self.max_steps = model, optim, max_steps

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """The training step, under the name that DDP and autocast are wrapped around."""
        return self.training_step(batch)

    def training_step(self, batch: Batch) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        """Sums over the real target tokens of a batch.

        Returns:
            What is minimised, with gradient; the negative log-likelihood in nats, without.
        """
        sums = self._r_drop_loss(batch) if self.optim.r_drop else self._loss(batch)
        return sums.smoothed, sums.nll

    def _loss(self, batch: Batch) -> LossSums:
        hidden_BTD = self.model(batch.source, batch.source_real, batch.target_in)
        return translation_loss(
            self.model,
            hidden_BTD,
            batch.labels,
            self.optim.label_smoothing,
            num_tokens=batch.target_tokens,
        )

    def _r_drop_loss(self, batch: Batch) -> LossSums:
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
        return LossSums((sums.smoothed + optim.r_drop / 2 * kl) / 2, sums.nll / 2)

    def validation_step(self, batch: Batch) -> Tensor:
        """The negative log-likelihood of a batch, summed, in nats."""
        with torch.compiler.set_stance("force_eager"):  # compiling for it would take longer
            hidden_BTD = self.model(batch.source, batch.source_real, batch.target_in)
        return translation_loss(self.model, hidden_BTD, batch.labels).nll

    def configure_optimizers(self) -> tuple[Optimizer, LambdaLR]:  # type: ignore[override]
        """The optimiser and the schedule of its learning rate, which steps with each update."""
        optimizer = make_optimizer(self.model, self.optim, self.model.config.d_model)
        return optimizer, make_schedule(optimizer, self.optim, self.max_steps)
