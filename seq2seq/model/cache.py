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
    """Keys and values of one attention, (B, K, S, E) each; of memory entries, (K, M, E)."""

    k: Tensor
    v: Tensor


class LayerCache:
    """Keys and values of one decoder layer.

    It is for decoding: keys and values are kept, and returned, without their gradients.

    Args:
        cross: of the source, computed once and shared by the beams; None without a source.
        capacity: most positions of self-attention; None = no limit.

    Attributes:
        length: positions of self-attention stored so far.
        entries: memory entries that stand before them.
    """

    def __init__(self, cross: KeysValues | None = None, capacity: int | None = None):
        self.cross = cross
        self.capacity = capacity
        self.reset()

    def reset(self) -> None:
        """Forget the past, keep the source."""
        self.length = self.entries = 0
        self._past: KeysValues | None = None  # buffers; the first entries + length are used
        self._spare: KeysValues | None = None  # what `reorder` copies to, in turns with the past

    @property
    def rows(self) -> int | None:
        """Hypotheses held; None before the first position."""
        return None if self._past is None else self._past.k.size(0)

    @property
    def bytes(self) -> int:
        """Memory held, in bytes, free places of the buffers included."""
        held = [*(self.cross or ()), *(self._past or ()), *(self._spare or ())]
        return sum(tensor.numel() * tensor.element_size() for tensor in held)

    def check_room(self, added: int) -> None:
        """Raise ValueError if so many more positions exceed the capacity."""
        if self.capacity is not None and self.length + added > self.capacity:
            raise ValueError(
                f"the cache has room for {self.capacity} positions and holds {self.length}: "
                f"{added} more do not fit; decode shorter outputs or allow longer ones"
            )

    def append(
        self, k_RKTE: Tensor, v_RKTE: Tensor, memory: KeysValues | None = None
    ) -> KeysValues:
        """Store the keys and values of T new positions; return those of all positions.

        Args:
            k_RKTE, v_RKTE: of the new positions.
            memory: entries (K, M, E) to stand before all positions, from the first call on.

        Raises:
            ValueError: no room, another number of hypotheses or heads, or memory given late.
        """
        self.check_room(k_RKTE.size(2))
        past = _first_entries(k_RKTE, v_RKTE, memory) if self._past is None else self._past
        if self._past is None:
            self.entries = past.k.size(2)
        elif memory is not None and memory.k.size(-2) != self.entries:
            raise ValueError(
                f"the cache began with {self.entries} memory entries, got {memory.k.size(-2)}: "
                "give the same ones at every step"
            )
        start = self.entries + self.length
        end = start + k_RKTE.size(2)
        for buffer, new in zip(past, (k_RKTE, v_RKTE), strict=True):
            _check_fits(buffer, new)
        if not _may_write(past):
            past = KeysValues(*(buffer.clone() for buffer in past))
        self._past = KeysValues(*(_with_room(buffer, start, end) for buffer in past))
        for buffer, new in zip(self._past, (k_RKTE, v_RKTE), strict=True):
            buffer[:, :, start:end] = new.detach()
        self.length = end - self.entries
        return KeysValues(*(buffer[:, :, :end] for buffer in self._past))

    def reorder(self, rows: Tensor) -> None:
        """Make hypothesis i a copy of the old hypothesis rows[i]; their number may change."""
        if self._past is None:
            return
        used, past, spare = self.entries + self.length, self._past, self._spare
        shape = (rows.numel(), *past.k.shape[1:])
        if spare is None or spare.k.shape != shape or not _may_write(spare):
            spare = KeysValues(*(old.new_empty(rows.numel(), *old.shape[1:]) for old in past))
        for old, new in zip(past, spare, strict=True):
            torch.index_select(old[:, :, :used], 0, rows, out=new[:, :, :used])
        self._past, self._spare = spare, past if past.k.shape == shape else None

    def keep(self, sentences: Tensor) -> None:
        """Keep the sources of these sentences only."""
        if self.cross is not None:
            self.cross = KeysValues(*(part.index_select(0, sentences) for part in self.cross))


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
        # Checked here, before anything is changed.
        check_hypotheses(self.layers[0].rows, rows)
        self.layers[0].check_room(added)
        if real_RT is not None and real_RT.shape != target_RT.shape:
            raise ValueError(
                f"the mask of real tokens is {tuple(real_RT.shape)}, the tokens are "
                f"{tuple(target_RT.shape)}: give one answer for each token"
            )
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

    def keep(self, sentences: Tensor, rows: Tensor) -> None:
        """Drop all sentences but these (B',), keeping the hypotheses `rows` (R',)."""
        self.source_allowed = self.source_allowed.index_select(0, sentences)
        for layer in self.layers:
            layer.keep(sentences)
        self.reorder(rows)

    def reset(self) -> None:
        """Forget the target, keep the source: ready for another one."""
        self.real_RL = None
        for layer in self.layers:
            layer.reset()


def check_hypotheses(held: int | None, given: int) -> None:
    """Raise ValueError if a step has another number of hypotheses than the past; None = no past."""
    if held not in (None, given):
        raise ValueError(
            f"the past is that of {held} hypotheses, got {given}: reorder it when their number "
            "changes"
        )


def _first_entries(k_RKTE: Tensor, v_RKTE: Tensor, memory: KeysValues | None) -> KeysValues:
    """The memory's entries for each hypothesis; buffers of no length without one."""
    if memory is None:
        return KeysValues(*(new.detach()[:, :, :0] for new in (k_RKTE, v_RKTE)))
    rows = k_RKTE.size(0)
    return KeysValues(
        *(
            part.detach().to(new.dtype).expand(rows, -1, -1, -1).clone()
            for part, new in zip(memory, (k_RKTE, v_RKTE), strict=True)
        )
    )


def _may_write(buffers: KeysValues) -> bool:
    """What was made in inference mode can be written to in inference mode only."""
    return torch.is_inference_mode_enabled() or not buffers.k.is_inference()


def _check_fits(buffer: Tensor, new: Tensor) -> None:
    check_hypotheses(buffer.size(0), new.size(0))
    if new.size(1) != buffer.size(1) or new.size(3) != buffer.size(3):
        raise ValueError(
            f"the cache holds {buffer.size(1)} heads of width {buffer.size(3)}, got "
            f"{new.size(1)} of width {new.size(3)}: a cache belongs to one attention"
        )


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
