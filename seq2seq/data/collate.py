"""Token lists -> padded tensors; the one place where decoder inputs and labels are made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from seq2seq.data.tokenizer import BOS, EOS, PAD


@dataclass
class Batch:
    """Sentence pairs as the model wants them; B pairs, S source and T target positions.

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


def pad(sequences: list[list[int]]) -> Tensor:
    """(B, longest) tensor of ids, PAD at the ends."""
    longest = max(len(sequence) for sequence in sequences)
    return torch.tensor([list(s) + [PAD] * (longest - len(s)) for s in sequences])


def collate_source(sources: list[list[int]]) -> Tensor:
    """(B, S) source ids with end marks, padded."""
    return pad([[*source, EOS] for source in sources])


def collate(sources: list[list[int]], targets: list[list[int]]) -> Batch:
    """A batch of token lists without marks."""
    return Batch(
        source=collate_source(sources),
        target_in=pad([[BOS, *target] for target in targets]),
        labels=pad([[*target, EOS] for target in targets]),
        source_tokens=sum(len(source) + 1 for source in sources),
        target_tokens=sum(len(target) + 1 for target in targets),
    )
