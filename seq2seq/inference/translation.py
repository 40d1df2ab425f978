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
        score: what the search ranked by: log probability, divided by a function of length. None
            where nothing was translated.
        finished: False if the output limit cut it off.
        tokens: subwords of the output, without marks.
        token_scores: log probability of each, then of the end mark; empty where the engine does
            not tell them.
        alternatives: further translations of the same text, the next best first. What is
            degenerate, lost something or holds a banned phrase stands behind, whatever its score.
        alignment: links (source word, target word) between the words that `str.split` finds in both
            texts, from 0; empty unless asked for.
        notes: what was done beside a plain search, and what was lost, in words.
        parts: what of a text was translated piece by piece, each with its translation.
    """

    text: str
    score: float | None
    finished: bool = True
    tokens: list[str] = field(default_factory=list)
    token_scores: list[float] = field(default_factory=list)
    alternatives: list[Translation] = field(default_factory=list)
    alignment: list[tuple[int, int]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    parts: list[tuple[str, str]] = field(default_factory=list)

    def __str__(self) -> str:
        return self.text

    def with_text(self, text: str) -> Translation:
        """The same in other words."""
        return dataclasses.replace(self, text=text)

    def noted(self, *notes: str) -> Translation:
        """The same with further notes."""
        return dataclasses.replace(self, notes=[*self.notes, *notes]) if notes else self


def joined(parts: Sequence[Translation], text: str) -> Translation:
    """The translation of a text from those of its parts, of which there is one at least."""
    scores = [part.score for part in parts if part.score is not None]
    return Translation(
        text=text,
        score=sum(scores) / len(scores) if scores else None,
        finished=all(part.finished for part in parts),
        tokens=[token for part in parts for token in part.tokens],
        token_scores=[score for part in parts for score in part.token_scores],
        notes=list(dict.fromkeys(note for part in parts for note in part.notes)),
    )
