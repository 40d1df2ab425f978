"""The Lightning module: training and validation steps around a model."""

from __future__ import annotations

import math
from typing import Any

import lightning as L
import torch
from torch import Tensor

from seq2seq.config import OptimConfig
from seq2seq.data.collate import Batch
from seq2seq.model.translation_model import TranslationModel
from seq2seq.training.loss import LossSums, translation_loss
from seq2seq.training.optim import make_optimizer, make_schedule


class TranslationTask(L.LightningModule):
    """Minimises the loss per real target token.

    The loss of a batch is a sum; gradients are divided once, before the update, by the number
    of target tokens over all accumulated batches and all processes. So one process with
    batches of 2N, two accumulated batches of N and two processes with N agree.

    Args:
        model: the network.
        optim: optimiser and label smoothing.
        gradient_clip: largest global gradient norm; 0 = no clipping.
        max_tokens: the batch budget; only brings the summed loss near 1, the range of fp16.
    """

    def __init__(
        self, model: TranslationModel, optim: OptimConfig, gradient_clip: float, max_tokens: int
    ):
        super().__init__()
        self.model = model
        self.optim = optim
        self.gradient_clip = gradient_clip
        self.max_tokens = max_tokens
        self._window: list[tuple[LossSums, int]] = []  # batches since the last update
        self._validation: list[tuple[Tensor, int]] = []

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        hidden_BTD = self.model(batch.source, batch.source_real, batch.target_in)
        sums = translation_loss(self.model, hidden_BTD, batch.labels, self.optim.label_smoothing)
        self._window.append(
            (LossSums(sums.smoothed.detach(), sums.nll), batch.target_tokens)
        )
        return sums.smoothed / self.max_tokens

    def on_before_optimizer_step(self, optimizer: torch.optim.Optimizer) -> None:
        """Turn summed gradients into those of the mean per token; log the losses."""
        window, self._window = self._window, []
        losses = torch.stack([torch.stack([sums.smoothed, sums.nll]) for sums, _ in window]).sum(0)
        totals = torch.cat([losses, losses.new_tensor([sum(tokens for _, tokens in window)])])
        if self.trainer.world_size > 1:
            totals = self._sum_over_ranks(totals)
        smoothed, nll, tokens = totals.unbind()
        # Lightning divides the loss by the accumulated batches, DDP by the processes.
        shares = self.trainer.accumulate_grad_batches * self.trainer.world_size
        factor = self.max_tokens * shares / tokens
        gradients = [p.grad for p in self.model.parameters() if p.grad is not None]
        torch._foreach_mul_(gradients, factor.to(gradients[0].dtype))
        self.log("train/loss", smoothed / tokens)
        self.log("train/nll", nll / tokens)
        self.log("train/perplexity", (nll / tokens).exp())

    def configure_gradient_clipping(
        self,
        optimizer: torch.optim.Optimizer,
        gradient_clip_val: float | None = None,
        gradient_clip_algorithm: str | None = None,
    ) -> None:
        limit = self.gradient_clip or math.inf
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), limit)
        self.log("optim/grad_norm", norm)
        self.log("optim/lr", optimizer.param_groups[0]["lr"])

    def validation_step(self, batch: Batch, batch_idx: int) -> None:
        hidden_BTD = self.model(batch.source, batch.source_real, batch.target_in)
        sums = translation_loss(self.model, hidden_BTD, batch.labels)
        self._validation.append((sums.nll, batch.target_tokens))

    def on_validation_epoch_end(self) -> None:
        batches, self._validation = self._validation, []
        totals = torch.zeros(2, device=self.device)
        for nll, tokens in batches:
            totals += torch.stack([nll, nll.new_tensor(tokens)])
        if self.trainer.world_size > 1:
            totals = self._sum_over_ranks(totals)
        nll = totals[0] / totals[1]
        self.log("val/nll", nll, rank_zero_only=True)
        self.log("val/perplexity", nll.exp(), rank_zero_only=True)

    def configure_optimizers(self) -> Any:
        optimizer = make_optimizer(self.model, self.optim, self.model.config.d_model)
        schedule = make_schedule(optimizer, self.optim)
        return {
            "optimizer": optimizer,
            "lr_scheduler": {"scheduler": schedule, "interval": "step"},
        }

    def _sum_over_ranks(self, totals: Tensor) -> Tensor:
        return torch.as_tensor(self.trainer.strategy.reduce(totals, reduce_op="sum"))
