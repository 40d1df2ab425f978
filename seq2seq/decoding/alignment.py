"""How much each token of a translation reads of its source: attention, by forced decoding.

Shapes: B pairs, H heads, S and T source and target lengths, end marks included.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from seq2seq.data.batching import Budget, token_batches
from seq2seq.data.collate import collate
from seq2seq.decoding.request import IdPair
from seq2seq.model.attention_maps import attention_maps, cross_attentions
from seq2seq.model.translation_model import TranslationModel


@dataclass(frozen=True)
class AttentionHead:
    """One attention from the target to the source.

    Attributes:
        layer: of the decoder, from 0; from its end if negative. The last but one aligns best in
            most models: the last rather serves the choice among next words.
        head: None = the mean of all heads of the layer.
    """

    layer: int = -2
    head: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.layer, int) or not isinstance(self.head, int | None):
            raise ValueError(f"a layer and a head are whole numbers, not {self}")

    def index(self, layers: int) -> int:
        """Its layer, of so many; the first, if counting from the end goes too far."""
        return max(self.layer, -layers)

    def module(self, names: Sequence[str]) -> str:
        """The name of the module it is in.

        Args:
            names: of those that read the source, the lowest layer first (`cross_attentions`).
        """
        return names[self.index(len(names))]

    def exists(self, layers: int, heads: int) -> bool:
        """Whether a model with so many has it."""
        return self.layer < layers and (self.head is None or 0 <= self.head < heads)


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
