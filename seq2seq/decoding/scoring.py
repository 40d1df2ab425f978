"""Forced decoding: how likely models find given translations.

Shapes: B pairs, S and T source and target lengths, N models.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from seq2seq.data.batching import Budget, token_batches
from seq2seq.data.collate import Batch, collate
from seq2seq.data.tokenizer import PAD
from seq2seq.decoding.request import IdPair
from seq2seq.model.translation_model import TranslationModel


@torch.inference_mode()
def forced_log_probs(
    models: Sequence[TranslationModel],
    pairs: Sequence[IdPair],
    batch_tokens: int = 8192,
) -> list[list[float]]:
    """Log probabilities of the tokens of each target, its end mark last.

    Args:
        models: in evaluation mode, over one vocabulary; several are asked for the mean of their
            probabilities, as `Ensemble` does.
        pairs: source and target ids without marks, in any order.
        batch_tokens: positions of both sides that are computed at once.
    """
    lengths = np.array([[len(side) + 1 for side in pair] for pair in pairs]).reshape(-1, 2)
    device = next(models[0].parameters()).device
    results: list[list[float]] = [[] for _ in pairs]
    for rows in token_batches(lengths, Budget(batch_tokens)):
        batch = collate([list(pairs[r][0]) for r in rows], [list(pairs[r][1]) for r in rows])
        log_probs_BT = _of_labels(models, batch.to(device)).cpu()
        for row, log_probs in zip(rows, log_probs_BT.tolist(), strict=True):
            results[row] = log_probs[: lengths[row, 1]]
    return results


def _of_labels(models: Sequence[TranslationModel], batch: Batch) -> Tensor:
    """Log probability of each label (B, T); only real ones are projected to the vocabulary."""
    real_BT = batch.labels != PAD
    labels_P1 = batch.labels[real_BT][:, None]
    each = []
    for model in models:
        hidden_BTD = model(batch.source, batch.source_real, batch.target_in)
        log_probs_PV = torch.log_softmax(model.project(hidden_BTD[real_BT]).float(), dim=-1)
        each.append(log_probs_PV.gather(1, labels_P1)[:, 0])
    mean_P = torch.stack(each).logsumexp(dim=0) - math.log(len(each))
    return mean_P.new_zeros(batch.labels.shape).masked_scatter(real_BT, mean_P)
