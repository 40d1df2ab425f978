"""What is asked of a search: a source, and what its translation must hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Request:
    """One source as token ids, without marks.

    Attributes:
        source: to be translated.
        prefix: the output begins so.
        required: sequences that the output contains.
        banned: sequences that it does not contain.
    """

    source: Sequence[int]
    prefix: Sequence[int] = ()
    required: Sequence[Sequence[int]] = ()
    banned: Sequence[Sequence[int]] = ()
