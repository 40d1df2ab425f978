"""Forced decoding: how likely given translations are, and what models read for each token.

Shapes: B pairs, H heads, S and T source and target lengths, end marks included; P real target
tokens of a batch.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
import torch

from seq2seq.data.batching import Budget, token_batches
from seq2seq.data.collate import Batch, collate
from seq2seq.data.tokenizer import PAD
from seq2seq.decoding.attention_head import AttentionHead
from seq2seq.decoding.request import IdPair
from seq2seq.model.attention_maps import attention_maps, cross_attentions
from seq2seq.model.translation_model import TranslationModel

BATCH_TOKENS = 8192  # positions of both sides in one batch


@torch.inference_mode()
def forced_log_probs(
    models: Sequence[TranslationModel], pairs: Sequence[IdPair]
) -> list[list[float]]:
    """Return the log probabilities of the tokens of each target, its end mark last.

    Args:
        models: in evaluation mode, over one vocabulary; the probabilities of several models are
            averaged, as in `Ensemble`.
        pairs: source and target ids without special tokens, in any order.
    """
    results: list[list[float]] = [[] for _ in pairs]
    for rows, batch in _batches(pairs, models[0]):
        real_BT = batch.labels != PAD
        labels_P1 = batch.labels[real_BT][:, None]
        each = []
        for model in models:
            hidden_BTD = model(batch.source, batch.source_real, batch.target_in)
            log_probs_PV = torch.log_softmax(model.project(hidden_BTD[real_BT]).float(), dim=-1)
            each.append(log_probs_PV.gather(1, labels_P1)[:, 0])
        mean_P = torch.stack(each).logsumexp(dim=0) - math.log(len(each))
        parts = mean_P.cpu().split_with_sizes(real_BT.sum(dim=1).tolist())
        for row, log_probs in zip(rows, parts, strict=True):
            results[row] = log_probs.tolist()
    return results


def forced_attention(
    model: TranslationModel, pairs: Sequence[IdPair], head: AttentionHead
) -> list[np.ndarray]:
    """Return attention weights of one head for given pairs, in one pass over each target.

    Returns:
        (T, S) for each pair: row t holds the weights that predict token t, the end mark last; rows
        sum to 1.
    """
    results: list[np.ndarray] = [np.empty(0)] * len(pairs)
    module = head.module(cross_attentions(model))
    for row, (weights_HTS,) in forced_maps(model, pairs, [module]):
        results[row] = weights_HTS.mean(axis=0) if head.head is None else weights_HTS[head.head]
    return results


@torch.inference_mode()
def forced_maps(
    model: TranslationModel, pairs: Sequence[IdPair], modules: Sequence[str]
) -> Iterator[tuple[int, list[np.ndarray]]]:
    """Yield the index of each pair, in any order, with the weights (H, T, S) of each module."""
    for rows, batch in _batches(pairs, model):
        maps = attention_maps(model, batch.source, batch.source_real, batch.target_in, modules)
        of_modules = [maps[name].float().cpu().numpy() for name in modules]
        for b, row in enumerate(rows):
            source_length, target_length = (len(side) + 1 for side in pairs[row])
            yield int(row), [m[b, :, :target_length, :source_length] for m in of_modules]


def _batches(
    pairs: Sequence[IdPair], model: TranslationModel
) -> Iterator[tuple[np.ndarray, Batch]]:
    """Yield batches of pairs of similar length, on the model's device, with the pairs' indices."""
    device = next(model.parameters()).device
    lengths = np.array([[len(side) + 1 for side in pair] for pair in pairs]).reshape(-1, 2)
    for rows in token_batches(lengths, Budget(BATCH_TOKENS)):
        batch = collate([list(pairs[r][0]) for r in rows], [list(pairs[r][1]) for r in rows])
        yield rows, batch.to(device)
