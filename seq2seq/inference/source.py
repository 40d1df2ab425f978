"""What a translator asks of a search, as text: sources, and searches for their translations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from seq2seq.inference.translation import Translation

Candidates = list[Translation]  # of one source, best first


@dataclass(frozen=True)
class Source:
    """What is translated at once.

    Attributes:
        text: as the model reads it.
        prefix: its translation begins so.
        most: tokens of its translation, end mark included, if that was asked for; parts of it that
            are translated one by one have no more together.
    """

    text: str
    prefix: str = ""
    most: int | None = None

    def cut(self, found: Translation) -> bool:
        """Whether it is what was asked for that ended a translation."""
        return self.most is not None and not found.finished

    def has_room_for(self, found: Translation) -> bool:
        """Whether a translation keeps to what was asked for."""
        return self.most is None or len(found.tokens) + found.finished <= self.most


class Search(Protocol):
    """Finds translations of sources, with changes to the settings of the search."""

    def __call__(self, sources: Sequence[Source], **changes: Any) -> list[Candidates]: ...
