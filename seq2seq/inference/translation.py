"""What a translator returns for a text."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Translation:
    """One translation of one text.

    Attributes:
        text: the French text; empty for an empty source.
        score: what the search ranked by: log probability, divided by a function of length.
        finished: False if the output limit cut it off.
        tokens: subwords of the output, without marks.
        token_scores: log probability of each, then of the end mark.
        alternatives: further translations of the same text, the next best first.
        alignment: links (source word, target word) between the words that `str.split` finds in both
            texts, from 0; empty unless asked for.
        notes: what was done beside a plain search, and what was lost, in words.
    """

    text: str
    score: float
    finished: bool = True
    tokens: list[str] = field(default_factory=list)
    token_scores: list[float] = field(default_factory=list)
    alternatives: list[Translation] = field(default_factory=list)
    alignment: list[tuple[int, int]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return self.text

    def with_text(self, text: str) -> Translation:
        """The same in other words."""
        return dataclasses.replace(self, text=text)

    def noted(self, *notes: str) -> Translation:
        """The same with further notes."""
        return dataclasses.replace(self, notes=[*self.notes, *notes])


def joined(parts: Sequence[Translation], text: str) -> Translation:
    """The translation of a text from those of its parts, of which there is one at least."""
    return Translation(
        text=text,
        score=sum(part.score for part in parts) / len(parts),
        finished=all(part.finished for part in parts),
        tokens=[token for part in parts for token in part.tokens],
        token_scores=[score for part in parts for score in part.token_scores],
        notes=list(dict.fromkeys(note for part in parts for note in part.notes)),
    )
