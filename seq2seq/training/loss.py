"""The training loss: label-smoothed cross-entropy, summed over real target tokens.

Shapes: B sentences, T target positions, P real ones among them, D model width, V vocabulary.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from seq2seq.data.collate import Batch
from seq2seq.data.tokenizer import PAD
from seq2seq.model.translation_model import TranslationModel

# Vocabulary scores of a portion: in full precision 64 MiB on a CPU (fewer would make the products
# slower), 1 GiB on a GPU. Their softmax takes as much again.
SCORES_AT_ONCE = {"cpu": 2**24, "cuda": 2**28}


class LossSums(NamedTuple):
    """Losses summed over the real target tokens of a batch; divide by their number at the end.

    Attributes:
        smoothed: cross-entropy against smoothed labels, which training minimises.
        nll: plain negative log-likelihood in nats, without gradient.
    """

    smoothed: Tensor
    nll: Tensor


def translation_loss(
    model: TranslationModel,
    hidden_BTD: Tensor,
    labels_BT: Tensor,
    smoothing: float = 0.0,
    num_tokens: int | None = None,
) -> LossSums:
    """Compute the loss of hidden states against the tokens that they should predict.

    A smoothed label gives the true token the weight 1 - smoothing and adds smoothing / V to every
    token of the vocabulary (Szegedy et al. 2016; section 5.4 of Vaswani et al. 2017).
    Only real positions are projected to the vocabulary, since a padded position would cost as
    much. They are projected in portions, so the scores of a whole batch are never in memory.

    Args:
        model: its output layer computes scores from hidden states.
        hidden_BTD: hidden states.
        labels_BT: ids to predict, PAD at padding.
        smoothing: weight that is spread over the vocabulary.
        num_tokens: number of real labels; None = count them, for which the host waits for a GPU.
    """
    real = labels_BT.flatten() != PAD
    size = int(real.sum()) if num_tokens is None else num_tokens
    places_P = torch.nonzero_static(real, size=size)[:, 0]
    hidden_PD = hidden_BTD.flatten(0, 1).index_select(0, places_P)
    labels_P = labels_BT.flatten()[places_P]
    weight_VD: Tensor = model.output.weight
    bias_V: Tensor | None = model.output.bias
    # `_CrossEntropy` computes gradients in its forward pass if `needs_input_grad` asks for them.
    # `needs_input_grad` is true for weights even under no_grad, and false for detached weights.
    if not torch.is_grad_enabled():
        weight_VD, bias_V = weight_VD.detach(), None if bias_V is None else bias_V.detach()
    device, dtype = weight_VD.device.type, weight_VD.dtype
    if torch.is_autocast_enabled(device):
        dtype = torch.get_autocast_dtype(device)
    smoothed, nll = _CrossEntropy.apply(  # type: ignore[no-untyped-call]
        hidden_PD, weight_VD, bias_V, labels_P, smoothing, dtype
    )
    return LossSums(smoothed, nll)


class TranslationTask(nn.Module):
    """Maps a batch to its summed losses; the trainer divides them by the number of tokens.

    DDP requires that the `forward` of the module that it wraps contains all use of weights, and
    the loss uses the weights of the output layer.
    """

    def __init__(self, model: TranslationModel, label_smoothing: float):
        super().__init__()
        self.model, self.label_smoothing = model, label_smoothing

    def forward(self, batch: Batch) -> LossSums:
        """Compute the summed losses of a batch."""
        hidden_BTD = self.model(batch.source, batch.source_real, batch.target_in)
        return translation_loss(
            self.model, hidden_BTD, batch.labels, self.label_smoothing, batch.target_tokens
        )


def validation_nll(model: TranslationModel, batch: Batch) -> Tensor:
    """Return the summed negative log-likelihood of a batch, in nats."""
    hidden_BTD = model(batch.source, batch.source_real, batch.target_in)
    return translation_loss(model, hidden_BTD, batch.labels).nll


class _CrossEntropy(torch.autograd.Function):
    """Smoothed and plain cross-entropy of an output layer, summed over hidden states.

    The gradient is computed in the forward pass, portion by portion, while the scores z = h W' + b
    are in memory. With smoothing e, smoothed = nll + e * (z[label] - mean(z)). The mean of the
    scores is the score of W's mean row, so smoothing needs no pass over the vocabulary.

    `F.linear_cross_entropy` of torch 2.13 gives one of the two sums, and torch 2.11 lacks it.

    The products are those of the unscaled sum. The loss scale of fp16 enters only in the backward
    pass, with the gradient of the sum: differences of probabilities fit into fp16 without it.
    """

    @staticmethod
    def forward(
        ctx: Any,
        hidden_PD: Tensor,
        weight_VD: Tensor,
        bias_V: Tensor | None,
        labels_P: Tensor,
        smoothing: float,
        dtype: torch.dtype,
    ) -> tuple[Tensor, Tensor]:
        with torch.autocast(weight_VD.device.type, enabled=False):
            x_PD, w_VD = hidden_PD.to(dtype), weight_VD.to(dtype)
            b_V = None if bias_V is None else bias_V.to(dtype)
            full = torch.promote_types(weight_VD.dtype, torch.float32)
            mean_D, sum_D = w_VD.mean(dim=0, dtype=full), x_PD.sum(dim=0, dtype=full)
            nll, label_scores = mean_D.new_zeros(()), mean_D.new_zeros(())
            learns = any(ctx.needs_input_grad)
            if learns:
                d_x_PD, d_w_VD = torch.empty_like(x_PD), torch.zeros_like(weight_VD, dtype=full)
                d_b_V = d_w_VD.new_zeros(len(w_VD))
            portion = max(1, SCORES_AT_ONCE[w_VD.device.type] // len(w_VD))
            for start in range(0, len(x_PD), portion):
                rows = slice(start, start + portion)
                z_PV = F.linear(x_PD[rows], w_VD, b_V).to(full)
                label_P1 = labels_P[rows, None]
                score_P, top_P = z_PV.gather(1, label_P1)[:, 0], z_PV.amax(dim=1)
                p_PV = z_PV.softmax(dim=1)
                # log(sum(exp(z))) = top - log(p of top); this p is at least 1 / V, so the log is
                # finite.
                nll += (top_P - p_PV.amax(dim=1).log() - score_P).sum()
                label_scores += score_P.sum()
                if not learns:
                    continue
                # d/dz = p - (1 - e) * onehot(label) - e / V; the last part follows after the loop.
                p_PV.scatter_add_(1, label_P1, p_PV.new_full(label_P1.shape, smoothing - 1))
                if bias_V is not None:
                    d_b_V += p_PV.sum(dim=0)
                p_PV = p_PV.to(dtype)
                torch.mm(p_PV, w_VD, out=d_x_PD[rows])
                _add_product(d_w_VD, p_PV.t(), x_PD[rows])
            mean = mean_D @ sum_D + (0 if bias_V is None else bias_V.mean() * len(x_PD))
            smoothed = nll + smoothing * (label_scores - mean)
            if not learns:
                return smoothed, nll
            d_x_PD -= (smoothing * mean_D).to(dtype)
            d_w_VD -= smoothing / len(w_VD) * sum_D
            d_b_V -= smoothing / len(w_VD) * len(x_PD)
        ctx.save_for_backward(d_x_PD.to(hidden_PD.dtype), d_w_VD, d_b_V)
        ctx.mark_non_differentiable(nll)
        return smoothed, nll

    @staticmethod
    def backward(ctx: Any, gradient: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        wanted = zip(ctx.saved_tensors, ctx.needs_input_grad, strict=False)
        gradients = [made * gradient if needed else None for made, needed in wanted]
        return (*gradients, None, None, None)


def _add_product(total: Tensor, a: Tensor, b: Tensor) -> None:
    """Add a @ b to `total` in place, summing half-precision products in full precision."""
    if total.dtype == a.dtype:
        total.addmm_(a, b)
    elif a.is_cuda:
        # The gradient of a frequent token adds up many rows: too large for fp16 to hold.
        total += torch.mm(a, b, out_dtype=total.dtype)
    else:  # bf16, which has the range of fp32
        total += a @ b
