"""Small words between the processes of a run, through the CPU: no GPU waits for them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist

T = TypeVar("T")

PATIENCE = timedelta(hours=2)  # one process may validate for long while the others wait


class Processes:
    """All processes of a run; what is called "together" must be called by each of them, in order.

    One process alone needs no `connect`, and everything is trivial.
    """

    def __init__(self) -> None:
        self._group: Any = None

    def connect(self) -> None:
        """Once torch.distributed is there, make a group over the CPU; together."""
        if dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1:
            self._group = dist.new_group(backend="gloo", timeout=PATIENCE)

    @property
    def rank(self) -> int:
        return 0 if self._group is None else dist.get_rank()

    def largest(self, *numbers: int) -> list[int]:
        """The largest of all processes, of each number; together."""
        if self._group is None:
            return list(numbers)
        values = torch.tensor(numbers)
        dist.all_reduce(values, op=dist.ReduceOp.MAX, group=self._group)
        return [int(value) for value in values]

    def gather(self, value: T) -> list[T]:
        """What each process has, by rank; together."""
        if self._group is None:
            return [value]
        values: list[Any] = [None] * dist.get_world_size()
        dist.all_gather_object(values, value, group=self._group)
        return values

    def tell(self, word: str) -> None:
        """Leave a word for the others, at any time."""
        if self._group is not None:
            _store().set(word, "told")

    def told(self, word: str) -> bool:
        """Whether any process has left it; does not wait."""
        return self._group is not None and bool(_store().check([word]))


def _store() -> Any:
    return dist.distributed_c10d._get_default_store()  # there is no public name for it
