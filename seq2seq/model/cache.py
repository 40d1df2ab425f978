"""What a decoder remembers between steps: one object, passed by hand.

R is the number of hypotheses being extended: B sentences times N beams. B, K, S, T, E as in
`attention.py`.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from seq2seq.model import masks

BLOCK = 32  # positions added when the self-attention buffers are full


class KeysValues(NamedTuple):
    """Keys and values of one attention, (B, K, S, E) each."""

    k: Tensor
    v: Tensor


class LayerCache:
    """Keys and values of one decoder layer.

    The past is remembered as numbers: no gradient flows into it.

    Args:
        cross: of the source, computed once and shared by the beams; None without a source.
        capacity: most positions of self-attention; None = no limit.

    Attributes:
        length: positions of self-attention stored so far.
    """

    def __init__(self, cross: KeysValues | None = None, capacity: int | None = None):
        self.cross = cross
        self.capacity = capacity
        self.length = 0
        self._past: KeysValues | None = None  # buffers; the first `length` positions are used

    @property
    def bytes(self) -> int:
        """Memory held, in bytes, free places of the buffers included."""
        held = [*(self.cross or ()), *(self._past or ())]
        return sum(tensor.numel() * tensor.element_size() for tensor in held)

    def append(self, k_RKTE: Tensor, v_RKTE: Tensor) -> KeysValues:
        """Store the keys and values of T new positions; return those of all positions.

        Raises:
            ValueError: the capacity is exceeded, or the number of hypotheses changed.
        """
        start, end = self.length, self.length + k_RKTE.size(2)
        if self.capacity is not None and end > self.capacity:
            raise ValueError(
                f"the cache has room for {self.capacity} positions and holds {start}: "
                f"{end - start} more do not fit; decode shorter outputs or allow longer ones"
            )
        if self._past is None:
            self._past = KeysValues(*(new.detach()[:, :, :0] for new in (k_RKTE, v_RKTE)))
        if k_RKTE.size(0) != self._past.k.size(0):
            raise ValueError(
                f"the cache holds {self._past.k.size(0)} hypotheses, got {k_RKTE.size(0)}: "
                "reorder it when their number changes"
            )
        self._past = KeysValues(*(_with_room(buffer, start, end) for buffer in self._past))
        for buffer, new in zip(self._past, (k_RKTE, v_RKTE), strict=True):
            buffer[:, :, start:end] = new.detach()
        self.length = end
        return KeysValues(*(buffer[:, :, :end] for buffer in self._past))

    def reorder(self, rows: Tensor) -> None:
        """Make hypothesis i a copy of the old hypothesis rows[i]; their number may change."""
        if self._past is not None:
            self._past = KeysValues(
                *(_gather_rows(buffer, rows, self.length) for buffer in self._past)
            )

    def select(self, sentences: Tensor) -> None:
        """Keep the sources of these sentences only."""
        if self.cross is not None:
            self.cross = KeysValues(*(part.index_select(0, sentences) for part in self.cross))

    def reset(self) -> None:
        """Forget the past, keep the source."""
        self.length, self._past = 0, None


class DecoderCache:
    """The caches of all layers, and which positions may be attended to.

    Args:
        layers: one LayerCache for each decoder layer.
        source_allowed: (B, 1, 1, S) boolean mask of the real source positions.

    Attributes:
        real_RL: (R, length) where the target so far is real; None while all of it is.
    """

    def __init__(self, layers: list[LayerCache], source_allowed: Tensor):
        self.layers = layers
        self.source_allowed = source_allowed
        self.real_RL: Tensor | None = None

    @property
    def length(self) -> int:
        """Target positions decoded so far."""
        return self.layers[0].length

    @property
    def bytes(self) -> int:
        """Memory held by all layers, in bytes."""
        return sum(layer.bytes for layer in self.layers)

    def place(
        self, target_RT: Tensor, real_RT: Tensor | None
    ) -> tuple[int | Tensor, Tensor | None]:
        """Where T further tokens stand, and which positions they may see besides causality.

        Args:
            target_RT: the tokens.
            real_RT: False where they pad, so that prefixes of several lengths can be aligned at
                their ends; None = all are real.

        Returns:
            The first one's position and None while nothing pads. Else the position of each
            token among the real ones (R, T), and a mask (R, 1, 1, length + T).
        """
        if real_RT is None and self.real_RL is None:
            return self.length, None
        rows, added = target_RT.shape
        past_RL, new_RT = (
            torch.ones(rows, length, dtype=torch.bool, device=target_RT.device)
            if real is None
            else real.to(torch.bool)
            for real, length in ((self.real_RL, self.length), (real_RT, added))
        )
        self.real_RL = torch.cat([past_RL, new_RT], dim=1)
        positions_RT = self.real_RL.cumsum(dim=1)[:, self.length :] - 1
        return positions_RT.clamp(min=0), masks.padding(self.real_RL)

    def reorder(self, rows: Tensor) -> None:
        """Make hypothesis i a copy of the old rows[i] (R,); beams choose their parents so."""
        if self.real_RL is not None:
            self.real_RL = self.real_RL.index_select(0, rows)
        for layer in self.layers:
            layer.reorder(rows)

    def select(self, sentences: Tensor, rows: Tensor) -> None:
        """Drop all sentences but these (B',), keeping the hypotheses `rows` (R',)."""
        self.source_allowed = self.source_allowed.index_select(0, sentences)
        for layer in self.layers:
            layer.select(sentences)
        self.reorder(rows)

    def reset(self) -> None:
        """Forget the target, keep the source: ready for another one."""
        self.real_RL = None
        for layer in self.layers:
            layer.reset()


def _with_room(buffer: Tensor, used: int, needed: int) -> Tensor:
    """The buffer itself if it has room for so many positions, else a copy of whole blocks."""
    capacity = buffer.size(2)
    if needed <= capacity:
        return buffer
    rows, heads, _, width = buffer.shape
    blocks = -(-needed // BLOCK)
    larger = buffer.new_empty(rows, heads, blocks * BLOCK, width)
    larger[:, :, :used] = buffer[:, :, :used]
    return larger


def _gather_rows(buffer: Tensor, rows: Tensor, length: int) -> Tensor:
    used = buffer[:, :, :length].index_select(0, rows)
    if rows.numel() != buffer.size(0):
        buffer = buffer.new_empty(rows.numel(), *buffer.shape[1:])
    buffer[:, :, :length] = used
    return buffer
