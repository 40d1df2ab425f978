"""Terminology: target phrases that are to stand for source phrases, and such as must not come.

A model that has learnt terms reads them inline (`data/annotations.py`). Any other is asked for the
sentence as it is. `fallback.py` has what happens where a term is missing then.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from seq2seq.data.annotations import AS, END_TERM, TERM
from seq2seq.errors import DataError, UserError
from seq2seq.inference.text.step import Fault, Step
from seq2seq.inference.translation import Translation

Span = tuple[int, int]


class Terminology(Step):
    """Asks for terms.

    Args:
        phrases: target phrases by source phrases.
        banned: target phrases that no translation should contain, however they are written in
            capitals, nor words that begin with one.
        inline: whether the model has learnt to read terms in its source.

    Raises:
        UserError: a phrase of a pair is empty, or holds what is banned.
    """

    name = "terminology"
    checks = True

    def __init__(
        self,
        phrases: Mapping[str, str],
        banned: Sequence[str] = (),
        *,
        inline: bool = False,
    ):
        own = [phrase.strip() for phrase in banned if phrase.strip()]
        # As a search can ban them; a sentence may begin with one.
        self.banned = list(dict.fromkeys(s for p in own for s in (p, p[:1].upper() + p[1:])))
        self._banned = re.compile("|".join(map(_begun, own)), re.IGNORECASE) if own else None
        self._targets = {_key(source): target for source, target in phrases.items()}
        for source, target in phrases.items():
            if not source.strip() or not target.strip():
                raise UserError(
                    f"the term {source!r}: {target!r} has an empty phrase, which cannot be found "
                    "or required: write both phrases, or leave the term out"
                )
            if wrong := self.forbidden(target):
                raise UserError(
                    f"the term {source!r}: {target!r} holds the banned {wrong[0]!r}: leave one of "
                    "them out"
                )
        longest_first = sorted(self._targets, key=len, reverse=True)
        words = "|".join(re.escape(source).replace(r"\ ", r"\s+") for source in longest_first)
        # The edges of a phrase are those of words: no term "art" in "part".
        self._pattern = re.compile(rf"(?<!\w)(?:{words})(?!\w)", re.IGNORECASE) if words else None
        self._inline = inline

    def before(self, text: str) -> tuple[str, list[Fault]]:
        """The text, and what each of its terms asks for."""
        return text, [Fault(f"the term {t}", "term", t, span) for span, t in self.terms(text)]

    def inline(self, text: str) -> str:
        """A text with its terms behind their phrases, if the model has learnt to read them so."""
        for (start, end), target in reversed(self.terms(text) if self._inline else []):
            start -= text[start - 1 : start] == " "
            text = f"{text[:start]}{TERM}{text[start:end]}{AS} {target}{END_TERM}{text[end:]}"
        return text

    def faults(self, result: Translation, state: list[Fault]) -> list[Fault]:
        """The terms that a translation lacks."""
        return [
            term for term in state if not re.search(_whole(term.wanted), result.text, re.IGNORECASE)
        ]

    def terms(self, source: str) -> list[tuple[Span, str]]:
        """Where a source has terms, the longest of those that overlap, and their targets."""
        if self._pattern is None:
            return []
        found = []
        for match in self._pattern.finditer(source):
            # The pattern takes some letters for the same that are not in lower case: a long s.
            target = self._targets.get(_key(match[0]))
            if target is not None:
                found.append((match.span(), target))
        return found

    def spans(self, source: str) -> list[Span]:
        """The places of terms in a source."""
        return [span for span, _ in self.terms(source)]

    def forbidden(self, target: str) -> tuple[str, ...]:
        """The banned phrases in a translation, each once as it is written there."""
        if self._banned is None:
            return ()
        return tuple(dict.fromkeys(match[0] for match in self._banned.finditer(target)))


def _whole(phrase: str) -> str:
    """A pattern of a phrase between edges of words."""
    return _begun(phrase) + (r"(?!\w)" if re.match(r"\w", phrase[-1]) else "")


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
