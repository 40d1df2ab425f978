"""Pad token ids into tensors; the only place that makes decoder inputs and labels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from seq2seq.data.batching import padded_lengths
from seq2seq.data.tokenizer import BOS, EOS, PAD

Ids = Sequence[int] | np.ndarray


@dataclass
class Batch:
    """Padded sentence pairs for the model; B pairs, S source and T target positions.

    For the source `a b` and the target `x y`: source `a b </s>`, target_in `<s> x y`,
    labels `x y </s>`: each input position predicts the label in the same place.
    """

    source: Tensor  # (B, S) ids
    target_in: Tensor  # (B, T) ids
    labels: Tensor  # (B, T) ids, PAD where there is nothing to predict
    source_tokens: int  # real tokens, end marks included
    target_tokens: int

    @property
    def source_real(self) -> Tensor:
        """(B, S) True where a source token is real."""
        return self.source != PAD

    def to(self, device: torch.device) -> Batch:
        """Copy all tensors to a device, without waiting."""
        return self._map(lambda tensor: tensor.to(device, non_blocking=True))

    def pin_memory(self) -> Batch:
        return self._map(Tensor.pin_memory)

    def _map(self, change: Callable[[Tensor], Tensor]) -> Batch:
        return replace(
            self,
            source=change(self.source),
            target_in=change(self.target_in),
            labels=change(self.labels),
        )


def pad(
    sequences: Sequence[Ids], before: int | None = None, after: int | None = None, multiple: int = 1
) -> Tensor:
    """Put lists of ids into one (B, longest) tensor, with PAD at the ends.

    Args:
        sequences: B lists of ids.
        before, after: a special token to put at the start or end of each list.
        multiple: the length is rounded up, see `padded_lengths`.
    """
    lengths = np.array([len(sequence) for sequence in sequences])
    first = int(before is not None)
    longest = lengths.max(keepdims=True) + first + int(after is not None)
    width = int(padded_lengths(longest, multiple)[0])
    padded = np.full((len(lengths), width), PAD, dtype=np.int64)
    places = np.arange(padded.shape[1]) - first
    padded[(places >= 0) & (places < lengths[:, None])] = np.concatenate(sequences)
    if before is not None:
        padded[:, 0] = before
    if after is not None:
        padded[np.arange(len(lengths)), lengths + first] = after
    return torch.from_numpy(padded)


def collate_source(sources: Sequence[Ids], multiple: int = 1) -> Tensor:
    """Return (B, S) source ids with end marks, padded."""
    return pad(sources, after=EOS, multiple=multiple)


def collate(sources: Sequence[Ids], targets: Sequence[Ids], multiple: int = 1) -> Batch:
    """Make a batch of ids without special tokens; lengths are rounded up, see `padded_lengths`."""
    return Batch(
        source=collate_source(sources, multiple),
        target_in=pad(targets, before=BOS, multiple=multiple),
        labels=pad(targets, after=EOS, multiple=multiple),
        source_tokens=sum(len(source) + 1 for source in sources),
        target_tokens=sum(len(target) + 1 for target in targets),
    )
