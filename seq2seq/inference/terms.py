"""Terminology: target phrases that are to stand for source phrases, and such as must not come."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from seq2seq.errors import DataError, UserError
from seq2seq.inference.items import Item


class Terms:
    """Finds the terms of a source, and what is banned in a translation.

    Args:
        phrases: target phrases by source phrases.
        banned: target phrases that no translation should contain, however they are written in
            capitals, nor words that begin with one.

    Raises:
        UserError: a phrase of a pair is empty.
    """

    def __init__(self, phrases: Mapping[str, str], banned: Sequence[str] = ()):
        for source, target in phrases.items():
            if not source.strip() or not target.strip():
                raise UserError(
                    f"the term {source!r}: {target!r} has an empty phrase, which cannot be found "
                    "or required: write both phrases, or leave the term out"
                )
        self._own = own = [phrase.strip() for phrase in banned if phrase.strip()]
        # As a search can ban them; a sentence may begin with one.
        self.banned = list(dict.fromkeys(s for p in own for s in (p, p[:1].upper() + p[1:])))
        self._banned = re.compile("|".join(map(_begun, own)), re.IGNORECASE) if own else None
        self._targets = {_key(source): target for source, target in phrases.items()}
        longest_first = sorted(self._targets, key=len, reverse=True)
        words = "|".join(re.escape(source).replace(r"\ ", r"\s+") for source in longest_first)
        # The edges of a phrase are those of words: no term "art" in "part".
        self._pattern = re.compile(rf"(?<!\w)(?:{words})(?!\w)", re.IGNORECASE) if words else None

    def required(self, source: str) -> tuple[str, ...]:
        """The target phrases for a source, each once, the longest of phrases that overlap."""
        if self._pattern is None:
            return ()
        # The pattern takes some letters for the same that are not in lower case, as the long s.
        found = (self._targets.get(_key(match[0])) for match in self._pattern.finditer(source))
        return tuple(dict.fromkeys(target for target in found if target is not None))

    def untouched(self, source: str, items: Sequence[Item]) -> list[Item]:
        """Those items of a source that no term replaces."""
        if self._pattern is None:
            return list(items)
        spans = [match.span() for match in self._pattern.finditer(source)]
        return [
            item
            for item in items
            if not any(start < item.end and item.start < end for start, end in spans)
        ]

    def without_phrases(self) -> Terms:
        """The same that requires nothing."""
        return Terms({}, self._own)

    def forbidden(self, target: str) -> tuple[str, ...]:
        """The banned phrases in a translation, each once as it is written there."""
        if self._banned is None:
            return ()
        return tuple(dict.fromkeys(match[0] for match in self._banned.finditer(target)))


def _begun(phrase: str) -> str:
    """A pattern of a phrase, or of what begins with it, from the edge of a word on."""
    edge = r"(?<!\w)" if re.match(r"\w", phrase) else ""
    return edge + r"\s+".join(map(re.escape, phrase.split()))


def _key(phrase: str) -> str:
    return " ".join(phrase.lower().split())


def load_terms(path: str | Path) -> dict[str, str]:
    """Read a file of terms: source phrase, tab, target phrase; one pair per line.

    Blank lines and lines that begin with # say nothing.

    Raises:
        DataError: the file cannot be read, or a line is no pair, or contradicts another; names it.
    """
    path = Path(path)
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(
            f"cannot read the terms {path}: {error}. Give a UTF-8 text file of lines 'source "
            "phrase, tab, target phrase'"
        ) from error
    terms: dict[str, str] = {}
    lines_of: dict[str, int] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        parts = [part.strip() for part in line.split("\t")]
        if len(parts) != 2 or not all(parts):
            raise DataError(
                f"{path}, line {number}: {line.strip()[:60]!r} is no pair of phrases: write the "
                "source phrase, one tab, and the target phrase"
            )
        source, target = parts
        if terms.setdefault(_key(source), target) != target:
            raise DataError(
                f"{path}, line {number}: {source!r} is {target!r} here, and "
                f"{terms[_key(source)]!r} in line {lines_of[_key(source)]}: keep one of them"
            )
        lines_of.setdefault(_key(source), number)
    return terms
