"""What is minimised: label-smoothed cross-entropy, as sums over real target tokens."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from seq2seq.data.tokenizer import PAD
from seq2seq.model.translation_model import TranslationModel


@dataclass
class LossSums:
    """Sums over the real target tokens of a batch; divide by their number once, at the end.

    Attributes:
        smoothed: cross-entropy against smoothed labels, with gradient.
        nll: plain negative log-likelihood in nats.
    """

    smoothed: Tensor
    nll: Tensor


def translation_loss(
    model: TranslationModel, hidden_BTD: Tensor, labels_BT: Tensor, smoothing: float = 0.0
) -> LossSums:
    """Loss of hidden states against the tokens they should predict.

    A smoothed label is the true token with weight 1 - smoothing and every token of the
    vocabulary with smoothing / V (Szegedy et al. 2016; section 5.4 of Vaswani et al. 2017).
    Only real positions are projected to the vocabulary, since padding would cost as much.
    """
    real_BT = labels_BT != PAD
    labels_P = labels_BT[real_BT]
    logits_PV = model.project(hidden_BTD[real_BT])
    log_probs_PV = torch.log_softmax(logits_PV.float(), dim=-1)
    nll = -log_probs_PV.gather(1, labels_P[:, None]).sum()
    if not smoothing:
        return LossSums(smoothed=nll, nll=nll.detach())
    uniform = -log_probs_PV.sum() / log_probs_PV.size(1)
    return LossSums((1 - smoothing) * nll + smoothing * uniform, nll.detach())
