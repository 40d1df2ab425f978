"""The state of a decoder between steps; the model makes it, and callers pass it to each step.

R is the number of hypotheses being extended: B sentences times N beams. L layers, T new positions,
P positions that storage has room for, B, K, S, E as in `attention.py`.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

BLOCK = 32  # positions by which the storage grows


class KeysValues(NamedTuple):
    """Keys and values of one attention, (B, K, S, E) each."""

    k: Tensor
    v: Tensor


class LayerCache(NamedTuple):
    """The part of a cache that one layer's self-attention reads and appends to."""

    cache: KVCache
    number: int  # of the layer

    @property
    def position(self) -> int | Tensor:
        """Position of the next token."""
        return self.cache.position

    def append(self, k_RKTE: Tensor, v_RKTE: Tensor) -> KeysValues:
        """Append keys and values (R, K, T, E) of this layer; return those of all places so far."""
        return self.cache.append(self.number, k_RKTE, v_RKTE)


class KVCache:
    """Keys and values of the target tokens so far, for all layers of a decoder.

    All are in one tensor, so that reordering the hypotheses is one operation. The cache is for
    decoding: it stores and returns keys and values without their gradients.

    In each step all layers append the same positions in their order: layer 0 makes room for all
    layers, and the last layer advances `length`.

    Args:
        layers: number of layers.
        capacity: greatest number of positions; None = no limit.

    Attributes:
        length: positions that all layers have stored.
    """

    def __init__(self, layers: int = 1, capacity: int | None = None):
        self.layers, self.capacity = layers, capacity
        self.length = 0
        # (R, 2 * L, K, P, E): for each layer the keys, then the values; None = nothing yet.
        self.storage: Tensor | None = None
        self._spare: Tensor | None = None  # a reordering copies to it and swaps the two

    def layer(self, index: int) -> LayerCache:
        """Return the part of the cache for one layer's self-attention."""
        return LayerCache(self, index)

    @property
    def position(self) -> int | Tensor:
        """Position of the next token, as the position modules take it."""
        return self.length

    @property
    def allowed(self) -> Tensor | None:
        """Mask over what `append` returns, for the next token; None = all, in causal order."""
        return None

    @property
    def bytes(self) -> int:
        """Memory in bytes, including places that are still free."""
        return sum(t.nbytes for t in (self.storage, self._spare) if t is not None)

    def append(self, layer: int, k_RKTE: Tensor, v_RKTE: Tensor) -> KeysValues:
        """Store the keys and values of T new positions of a layer; return those of all positions.

        Raises:
            ValueError: the capacity is exceeded.
        """
        start, end = self.length, self.length + k_RKTE.size(2)
        if layer == 0:
            self._make_room(k_RKTE, end)
        assert self.storage is not None
        k_RKPE, v_RKPE = self.storage[:, 2 * layer], self.storage[:, 2 * layer + 1]
        k_RKPE[:, :, start:end] = k_RKTE.detach()
        v_RKPE[:, :, start:end] = v_RKTE.detach()
        if layer == self.layers - 1:
            self.length = end
        return KeysValues(k_RKPE[:, :, :end], v_RKPE[:, :, :end])

    def _make_room(self, k_RKTE: Tensor, end: int) -> None:
        """Make room for `end` positions of all layers."""
        if self.capacity is not None and end > self.capacity:
            raise ValueError(
                f"the cache has room for {self.capacity} positions and holds {self.length}: "
                f"{end - self.length} more do not fit; decode shorter outputs or allow longer ones"
            )
        storage = self.storage
        if storage is None or not self.length:  # an empty cache may get another number of rows
            rows, heads, _, width = k_RKTE.shape
            storage = k_RKTE.new_empty(rows, 2 * self.layers, heads, 0, width)
        if end > storage.size(3):
            blocks = -(-end // BLOCK)
            storage = F.pad(storage, (0, 0, 0, blocks * BLOCK - storage.size(3)))
        self.storage = storage

    def reorder(self, rows: Tensor) -> None:
        """Make hypothesis i a copy of the old hypothesis rows[i]; R may change."""
        old, new = self.storage, self._spare
        if old is None or not self.length:
            return
        shape = (rows.numel(), *old.shape[1:])
        if new is None or new.shape != shape:
            new = old.new_empty(shape)
        used = (..., slice(0, self.length), slice(None))
        torch.index_select(old[used], 0, rows, out=new[used])
        self.storage, self._spare = new, old if old.shape == shape else None


class FixedKVCache(KVCache):
    """A cache whose shape and place in memory never change, as CUDA graphs require.

    Each step stores one position. The number of this position is a tensor, too, and a mask hides
    the places that are still free.

    Args:
        storage: (R, 2 * L, K, P, E), all numbers finite.
    """

    def __init__(self, storage: Tensor):
        _, parts, _, places, _ = storage.shape
        super().__init__(parts // 2, places)
        self.storage: Tensor = storage
        self._keys_values = storage.unbind(1)
        self._next_position = storage.new_zeros(1, dtype=torch.long)  # of the next token

    def go_to(self, length: int) -> None:
        """Set the number of stored positions; the next token comes after them.

        A step does not change this number itself, because a graph is replayed without Python.
        """
        self.length = length
        self._next_position.fill_(length)

    @property
    def position(self) -> Tensor:
        return self._next_position[None]  # (1, 1): the same for all hypotheses

    @property
    def allowed(self) -> Tensor:
        """Mask (1, 1, 1, P) that hides free places, but not that of the next token."""
        places_P = torch.arange(self.storage.size(3), device=self._next_position.device)
        return (places_P <= self._next_position)[None, None, None]

    def append(self, layer: int, k_RK1E: Tensor, v_RK1E: Tensor) -> KeysValues:
        """Store keys and values (R, K, 1, E) at the next place; return all places, (R, K, P, E).

        The caller makes sure that a place is free.
        """
        k, v = self._keys_values[2 * layer : 2 * layer + 2]
        k.index_copy_(2, self._next_position, k_RK1E)
        v.index_copy_(2, self._next_position, v_RK1E)
        return KeysValues(k, v)

    def reorder(self, rows: Tensor) -> None:
        self.copy_rows(self.storage, rows, self.length)

    def copy_rows(self, storage: Tensor, rows: Tensor, length: int) -> None:
        """Copy `length` positions of these hypotheses from another storage, or from this one."""
        used = storage[..., :length, :]
        self.storage[: len(rows), ..., :length, :] = used.index_select(0, rows)


class TransformerState:
    """The encoded source, and what was decoded of its translations so far.

    Args:
        source: keys and values of the source for each layer, (B, K, S, E); the beams share them.
        source_allowed: (B, 1, 1, S) mask of the real source tokens; None = all are real.
        cache: keys and values of the target so far.
    """

    def __init__(self, source: list[KeysValues], source_allowed: Tensor | None, cache: KVCache):
        self.source, self.source_allowed, self.cache = source, source_allowed, cache

    @property
    def length(self) -> int:
        """Target positions decoded so far."""
        return self.cache.length

    @property
    def bytes(self) -> int:
        """Memory in bytes."""
        return self.cache.bytes + sum(part.nbytes for layer in self.source for part in layer)

    def reorder(self, rows: Tensor) -> None:
        """Make hypothesis i a copy of the old rows[i] (R,), the parent that a beam has chosen."""
        self.cache.reorder(rows)

    def keep(self, sentences: Tensor, rows: Tensor) -> None:
        """Keep only these sentences (B',) and the hypotheses `rows` (R',)."""
        self.source = [
            KeysValues(*(part.index_select(0, sentences) for part in layer))
            for layer in self.source
        ]
        if self.source_allowed is not None:
            self.source_allowed = self.source_allowed.index_select(0, sentences)
        self.cache.reorder(rows)
