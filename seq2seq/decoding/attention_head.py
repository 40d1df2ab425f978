"""Which attention tells what a translation read of its source.

A file without torch: the commands of CTranslate2 do not wait for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


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
