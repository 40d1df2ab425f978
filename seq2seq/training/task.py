"""The Lightning module: training and validation steps around a model."""

from __future__ import annotations

import math
from typing import Any

import lightning as L
import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from seq2seq.config import OptimConfig
from seq2seq.data.collate import Batch
from seq2seq.data.tokenizer import PAD
from seq2seq.model.translation_model import TranslationModel
from seq2seq.training.compilation import compile_model
from seq2seq.training.guard import BadStep, Guard
from seq2seq.training.loss import LossSums, divergence, translation_loss
from seq2seq.training.optim import make_optimizer, make_schedule
from seq2seq.training.strategy import whole


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
        spike: nats per token above the recent average that make a step bad.
        split: parts that a batch is computed in, one by one.
        compile: by torch.compile, where that works.

    Attributes:
        left_out: whether the last update was not made.
        bad_step: what was bad about it; None if it was made, or only too large for fp16.
        batch: the one that is being trained on; None in validation.
    """

    def __init__(
        self,
        model: TranslationModel,
        optim: OptimConfig,
        gradient_clip: float,
        max_tokens: int,
        spike: float = math.inf,
        split: int = 1,
        compile: bool = False,
    ):
        super().__init__()
        self.model = model
        self.optim = optim
        self.gradient_clip = gradient_clip
        self.max_tokens = max_tokens
        self.split = split
        self.compile_wanted = compile
        self.guard = Guard(spike)
        self.left_out = False
        self.bad_step: BadStep | None = None
        self.batch: Batch | None = None
        self._window: list[tuple[LossSums, Batch]] = []  # since the last update
        self._validation: list[tuple[Tensor, int]] = []

    def on_train_start(self) -> None:
        if self.compile_wanted:
            with self.trainer.precision_plugin.forward_context():
                compile_model(self.model)

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        self.batch, self.bad_step, self.left_out = batch, None, False
        sums = self._r_drop_loss(batch) if self.optim.r_drop else self._loss(batch)
        self._window.append((LossSums(sums.smoothed.detach(), sums.nll), batch))
        return sums.smoothed / self.max_tokens

    def _loss(self, batch: Batch) -> LossSums:
        hidden_BTD = self._hidden(batch.source, batch.target_in)
        smoothing, tokens = self.optim.label_smoothing, batch.target_tokens
        return translation_loss(self.model, hidden_BTD, batch.labels, smoothing, tokens)

    def _r_drop_loss(self, batch: Batch) -> LossSums:
        """The mean loss of two passes, under two draws of dropout, and how far they are apart.

        Equation 4 of Liang et al. 2021, per pass: the second half of the batch is the first again.
        """
        model, optim, tokens = self.model, self.optim, batch.target_tokens
        source_BS, target_in_BT, labels_BT = (
            side.repeat(2, 1) for side in (batch.source, batch.target_in, batch.labels)
        )
        hidden_BTD = self._hidden(source_BS, target_in_BT)
        sums = translation_loss(model, hidden_BTD, labels_BT, optim.label_smoothing, 2 * tokens)
        apart = divergence(model, hidden_BTD, labels_BT, tokens)
        return LossSums((sums.smoothed + optim.r_drop / 2 * apart) / 2, sums.nll / 2)

    def _hidden(self, source_BS: Tensor, target_in_BT: Tensor) -> Tensor:
        """What the model makes of a batch; activations of split ones are made anew backwards."""
        if self.split == 1:
            hidden_BTD: Tensor = self.model(source_BS, source_BS != PAD, target_in_BT)
            return hidden_BTD
        parts = zip(source_BS.chunk(self.split), target_in_BT.chunk(self.split), strict=True)
        hidden_btd = [
            checkpoint(self.model, source, source != PAD, target_in, use_reentrant=False)
            for source, target_in in parts
        ]
        return torch.cat(hidden_btd)

    def on_before_optimizer_step(self, optimizer: torch.optim.Optimizer) -> None:
        """Turn summed gradients into those of the mean per token; log the losses."""
        window, self._window = self._window, []
        losses = torch.stack([torch.stack([sums.smoothed, sums.nll]) for sums, _ in window]).sum(0)
        totals = torch.cat([losses, losses.new_full((1,), sum(b.target_tokens for _, b in window))])
        if self.trainer.world_size > 1:
            totals = self._sum_over_ranks(totals)
        smoothed, nll, tokens = totals.unbind()
        # Lightning divides the loss by the accumulated batches, DDP by the processes.
        shares = self.trainer.accumulate_grad_batches * self.trainer.world_size
        factor = self.max_tokens * shares / tokens
        gradients = [p.grad for p in self.model.parameters() if p.grad is not None]
        torch._foreach_mul_(gradients, factor.to(gradients[0].dtype))
        self._nll, self._batches = nll / tokens, [batch for _, batch in window]
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
        norm = whole(torch.nn.utils.clip_grad_norm_(self.model.parameters(), limit))
        self.log("optim/grad_norm", norm)
        self.log("optim/lr", norm.new_full((), optimizer.param_groups[0]["lr"]))
        self._leave_out_if_bad(norm)

    def _leave_out_if_bad(self, norm: Tensor) -> None:
        """Take the gradients away, so that the optimiser finds nothing to do."""
        nll, size = torch.stack([self._nll, norm]).tolist()  # waits for the GPU, once a step
        if math.isfinite(nll) and not math.isfinite(size) and self._loss_scale() > 1:
            self.left_out, self._batches = True, []
            return  # fp16 overflowed: the scaler leaves this step out itself, and scales less
        average, reason = self.guard.average, self.guard.fault(nll, size)
        self.left_out = reason is not None
        if reason is not None:
            self.bad_step = BadStep(reason, nll, average, size, self._batches)
            self.model.zero_grad()
        self._batches = []

    def _loss_scale(self) -> float:
        """What fp16 multiplies the loss with, to keep small gradients from becoming zero."""
        scaler = getattr(self.trainer.precision_plugin, "scaler", None)
        return 0.0 if scaler is None else float(scaler.get_scale())

    def on_validation_start(self) -> None:
        self.batch = None

    def validation_step(self, batch: Batch, batch_idx: int) -> None:
        with torch.compiler.set_stance("force_eager"):  # compiling for it would take longer
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
        schedule = make_schedule(optimizer, self.optim, self.trainer.max_steps)
        return {
            "optimizer": optimizer,
            "lr_scheduler": {"scheduler": schedule, "interval": "step"},
        }

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        checkpoint["guard"] = self.guard.state_dict()

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        self.guard.load_state_dict(checkpoint["guard"])

    def _sum_over_ranks(self, totals: Tensor) -> Tensor:
        return torch.as_tensor(self.trainer.strategy.reduce(totals, reduce_op="sum"))
