"""Results of a translator, and checks of the texts that it is given."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from seq2seq.errors import UserError


@dataclass(frozen=True)
class Translation:
    """One translation of one text.

    Attributes:
        text: the French text; empty for an empty source.
        score: the search ranks by it: log probability, divided by a function of length. None if
            nothing was translated.
        finished: False if the output limit cut it off.
        tokens: subwords of the output, without special tokens.
        token_scores: log probability of each token, then of the end mark; empty if the engine does
            not return them.
        alternatives: further translations of the same text, best first. Those that are degenerate,
            lost something or hold a banned phrase come last, whatever their scores.
        alignment: links (source word, target word) between the words that `str.split` finds in both
            texts, from 0; empty unless asked for.
        notes: in words, what was done beyond a plain search, and what was lost.
        parts: the pieces of the text that were translated one by one, with their translations.
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
        return dataclasses.replace(self, text=text)

    def with_notes(self, *notes: str) -> Translation:
        """Return a copy with further notes."""
        return dataclasses.replace(self, notes=[*self.notes, *notes]) if notes else self


def joined(parts: Sequence[Translation], text: str) -> Translation:
    """Join the translations of parts, at least one, into one translation whose text is `text`."""
    scores = [part.score for part in parts if part.score is not None]
    return Translation(
        text=text,
        score=sum(scores) / len(scores) if scores else None,
        finished=all(part.finished for part in parts),
        tokens=[token for part in parts for token in part.tokens],
        token_scores=[score for part in parts for score in part.token_scores],
        notes=list(dict.fromkeys(note for part in parts for note in part.notes)),
    )


@dataclass(frozen=True)
class PairScore:
    """How likely the model finds a given translation.

    Attributes:
        log_prob: natural log of its probability, end mark included.
        tokens: its subwords, without special tokens.
        token_scores: log probability of each token, then of the end mark.
        words: number of words of the given target, cut at spaces.
    """

    log_prob: float
    tokens: list[str]
    token_scores: list[float]
    words: int

    @property
    def per_token(self) -> float:
        """Mean log probability of a token, end mark included."""
        return self.log_prob / len(self.token_scores)

    @property
    def per_word(self) -> float:
        """Log probability per word of the target, comparable between vocabularies."""
        return self.log_prob / max(1, self.words)


def readable(text: str) -> str:
    """Return a text that can be written as UTF-8: lone surrogates become question marks."""
    return text.encode("utf-8", "replace").decode("utf-8")


def readable_list(name: str, texts: Iterable[str]) -> list[str]:
    """Return texts that can be written as UTF-8.

    Raises:
        UserError: `texts` is a single text, or an item is no text.
    """
    refuse_single_text(name, texts)
    texts = list(texts)
    for number, text in enumerate(texts, 1):
        if not isinstance(text, str):
            raise UserError(
                f"{name} has a {type(text).__name__} in place {number}, where a text must be: give "
                "a list of str"
            )
    return [readable(text) for text in texts]


def refuse_single_text(name: str, texts: Iterable[str]) -> None:
    """Raise UserError if `texts` is a single text instead of a list."""
    if isinstance(texts, str):
        raise UserError(
            f"{name} is a single text, whose characters would be taken one by one: give a list, "
            f"such as [{texts[:40]!r}]"
        )


def readable_pairs(pairs: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return pairs of texts that can be written as UTF-8.

    Raises:
        UserError: an item is no pair of texts.
    """
    pairs = list(pairs)
    for number, pair in enumerate(pairs, 1):
        texts = list(pair) if isinstance(pair, tuple | list) else [pair]
        if len(texts) != 2 or not all(isinstance(text, str) for text in texts):
            raise UserError(
                f"pair {number} is {repr(pair)[:60]}, and must be two texts: (source, translation)"
            )
    return [(readable(source), readable(target)) for source, target in pairs]
