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
    """

    text: str
    prefix: str = ""


class Search(Protocol):
    """Finds translations of sources, with changes to the settings of the search."""

    def __call__(self, sources: Sequence[Source], **changes: Any) -> list[Candidates]: ...
