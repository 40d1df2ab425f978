"""What a decoder remembers between steps: one object, passed by hand.

R is the number of hypotheses being extended: B sentences times N beams.
"""

from __future__ import annotations

from torch import Tensor

BLOCK = 32  # positions added when the self-attention buffers are full


class LayerCache:
    """Keys and values of one decoder layer.

    Attributes:
        cross_k, cross_v: (B, K, S, E) of the source, computed once and shared by the beams.
        length: positions of self-attention stored so far.
    """

    def __init__(self, cross_k: Tensor, cross_v: Tensor):
        self.cross_k, self.cross_v = cross_k, cross_v
        self.length = 0
        self._k: Tensor | None = None
        self._v: Tensor | None = None

    def append(self, k_RKTE: Tensor, v_RKTE: Tensor) -> tuple[Tensor, Tensor]:
        """Store the keys and values of T new positions; return those of all positions."""
        rows, heads, added, width = k_RKTE.shape
        if self._k is None or self._v is None:
            self._k = k_RKTE.new_empty(rows, heads, max(BLOCK, added), width)
            self._v = v_RKTE.new_empty(rows, heads, max(BLOCK, added), v_RKTE.size(-1))
        if rows != self._k.size(0):
            raise ValueError(f"the cache holds {self._k.size(0)} hypotheses, got {rows}")
        self._k = _room_for(self._k, self.length + added)
        self._v = _room_for(self._v, self.length + added)
        self._k[:, :, self.length : self.length + added] = k_RKTE
        self._v[:, :, self.length : self.length + added] = v_RKTE
        self.length += added
        return self._k[:, :, : self.length], self._v[:, :, : self.length]

    def reorder(self, rows: Tensor) -> None:
        """Make hypothesis i a copy of the old hypothesis rows[i]; their number may change."""
        if self._k is not None and self._v is not None:
            self._k = _gather_rows(self._k, rows, self.length)
            self._v = _gather_rows(self._v, rows, self.length)

    def select(self, sentences: Tensor) -> None:
        """Keep the sources of these sentences only."""
        self.cross_k = self.cross_k.index_select(0, sentences)
        self.cross_v = self.cross_v.index_select(0, sentences)


class DecoderCache:
    """The caches of all layers, and which source positions may be attended to.

    Args:
        layers: one LayerCache for each decoder layer.
        source_allowed: (B, 1, 1, S) boolean mask of the real source positions.
    """

    def __init__(self, layers: list[LayerCache], source_allowed: Tensor):
        self.layers = layers
        self.source_allowed = source_allowed

    @property
    def length(self) -> int:
        """Target positions decoded so far."""
        return self.layers[0].length

    def reorder(self, rows: Tensor) -> None:
        """Make hypothesis i a copy of the old rows[i] (R,); beams choose their parents so."""
        for layer in self.layers:
            layer.reorder(rows)

    def select(self, sentences: Tensor, rows: Tensor) -> None:
        """Drop all sentences but these (B',), keeping the hypotheses `rows` (R',)."""
        self.source_allowed = self.source_allowed.index_select(0, sentences)
        for layer in self.layers:
            layer.select(sentences)
        self.reorder(rows)


def _room_for(buffer: Tensor, length: int) -> Tensor:
    capacity = buffer.size(2)
    if length <= capacity:
        return buffer
    rows, heads, _, width = buffer.shape
    larger = buffer.new_empty(rows, heads, max(length, capacity + BLOCK), width)
    larger[:, :, :capacity] = buffer
    return larger


def _gather_rows(buffer: Tensor, rows: Tensor, length: int) -> Tensor:
    used = buffer[:, :, :length].index_select(0, rows)
    if rows.numel() != buffer.size(0):
        buffer = buffer.new_empty(rows.numel(), *buffer.shape[1:])
    buffer[:, :, :length] = used
    return buffer
