"""The choice of the attention head that shows which source tokens a translation read.

This file does not import torch, so that the commands of CTranslate2 need not wait for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class AttentionHead:
    """One head, or the mean of a layer's heads, of the attention from target to source.

    Attributes:
        layer: decoder layer, counted from 0, or from the end if negative. The last but one aligns
            best in most models; the last rather serves the choice of the next word.
        head: head of the layer, from 0; None = the mean of all heads of the layer.
    """

    layer: int = -2
    head: int | None = None

    def index(self, layers: int) -> int:
        """Return an index into so many layers; the first if a negative number goes too far."""
        return max(self.layer, -layers)

    def module(self, names: Sequence[str]) -> str:
        """Return the name of the module that has this head.

        Args:
            names: modules that read the source, the lowest layer first (`cross_attentions`).
        """
        return names[self.index(len(names))]

    def exists(self, layers: int, heads: int) -> bool:
        """Tell whether a model with so many layers, and heads in each, has this head."""
        return self.layer < layers and (self.head is None or 0 <= self.head < heads)
