"""How much each token of a translation reads of its source: attention, by forced decoding.

Shapes: B pairs, H heads, S and T source and target lengths, end marks included.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch

from seq2seq.data.batching import Budget, token_batches
from seq2seq.data.collate import collate
from seq2seq.decoding.attention_head import AttentionHead
from seq2seq.decoding.request import IdPair
from seq2seq.model.attention_maps import attention_maps, cross_attentions
from seq2seq.model.translation_model import TranslationModel


@torch.inference_mode()
def forced_attention(
    model: TranslationModel,
    pairs: Sequence[IdPair],
    head: AttentionHead,
    batch_tokens: int = 8192,
) -> list[np.ndarray]:
    """Attention weights of one head for given pairs, in one pass over each target.

    Args:
        model: in evaluation mode.
        pairs: in any order.
        head: the one that is asked for.
        batch_tokens: positions of both sides that are computed at once.

    Returns:
        (T, S) for each pair: in row t what was read to predict token t, the end mark last; rows
        sum to 1.
    """
    results: list[np.ndarray] = [np.empty(0)] * len(pairs)
    module = head.module(cross_attentions(model))
    for row, (weights_HTS,) in forced_maps(model, pairs, [module], batch_tokens):
        results[row] = weights_HTS.mean(axis=0) if head.head is None else weights_HTS[head.head]
    return results


@torch.inference_mode()
def forced_maps(
    model: TranslationModel,
    pairs: Sequence[IdPair],
    modules: Sequence[str],
    batch_tokens: int = 8192,
) -> Iterator[tuple[int, list[np.ndarray]]]:
    """The number of each pair, in no order, with the weights (H, T, S) of each of some modules."""
    device = next(model.parameters()).device
    lengths = np.array([[len(side) + 1 for side in pair] for pair in pairs]).reshape(-1, 2)
    for rows in token_batches(lengths, Budget(batch_tokens)):
        batch = collate([list(pairs[r][0]) for r in rows], [list(pairs[r][1]) for r in rows])
        batch = batch.to(device)
        maps = attention_maps(model, batch.source, batch.source_real, batch.target_in, modules)
        of_modules = [maps[name].float().cpu().numpy() for name in modules]
        for b, row in enumerate(rows):
            source_length, target_length = lengths[row]
            yield int(row), [m[b, :, :target_length, :source_length] for m in of_modules]
