"""Terminology: target phrases that must translate source phrases, and banned target phrases.

A model that has learnt terms reads them inline (`data/annotations.py`). Any other model translates
the sentence as it is. If the translation lacks a term, `fallback.py` searches again.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from seq2seq.data.annotations import AS, END_TERM, TERM
from seq2seq.errors import DataError, UserError
from seq2seq.inference.text.step import Fault, Step
from seq2seq.inference.text.tags import Span
from seq2seq.inference.translation import Translation


class Terminology(Step):
    """The step that asks for terms, and finds those that a translation lacks.

    Args:
        phrases: target phrases by source phrases.
        banned: target phrases, in capitals or not. No translation should contain one, or a word
            that begins with one.
        inline: whether the model has learnt to read terms in its source.

    Raises:
        UserError: a phrase of a pair is empty, or a target contains a banned phrase.
    """

    name = "terminology"
    checks = True

    def __init__(
        self, phrases: Mapping[str, str], banned: Sequence[str] = (), *, inline: bool = False
    ):
        own = [phrase.strip() for phrase in banned if phrase.strip()]
        # The forms that a search bans: as given, and as a sentence would begin with it.
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
        # A phrase begins and ends where a word does: "part" has no term "art".
        self._pattern = re.compile(rf"(?<!\w)(?:{words})(?!\w)", re.IGNORECASE) if words else None
        self._inline = inline

    def before(self, text: str) -> tuple[str, list[Fault]]:
        """Return the text unchanged, and the faults of a translation without its terms."""
        return text, [Fault(f"the term {t}", "term", t, span) for span, t in self.terms(text)]

    def inline(self, text: str) -> str:
        """Write terms behind their phrases in a text, if the model has learnt to read them so."""
        for (start, end), target in reversed(self.terms(text) if self._inline else []):
            start -= text[start - 1 : start] == " "
            text = f"{text[:start]}{TERM}{text[start:end]}{AS} {target}{END_TERM}{text[end:]}"
        return text

    def faults(self, result: Translation, state: list[Fault]) -> list[Fault]:
        return [
            term for term in state if not re.search(_whole(term.wanted), result.text, re.IGNORECASE)
        ]

    def terms(self, source: str) -> list[tuple[Span, str]]:
        """Return the spans of terms in a source, of overlapping ones the longest, with targets."""
        found = self._pattern.finditer(source) if self._pattern else ()
        each = ((match.span(), self._targets.get(_key(match[0]))) for match in found)
        # The pattern equates some letters that differ in lower case, such as a long s and an s.
        return [(span, target) for span, target in each if target is not None]

    def spans(self, source: str) -> list[Span]:
        return [span for span, _ in self.terms(source)]

    def forbidden(self, target: str) -> tuple[str, ...]:
        """Return the banned phrases in a translation, as they are written there, each once."""
        return tuple(dict.fromkeys(self._banned.findall(target))) if self._banned else ()


def _whole(phrase: str) -> str:
    """Return a pattern of a phrase that begins and ends where a word does."""
    return _begun(phrase) + (r"(?!\w)" if re.match(r"\w", phrase[-1]) else "")


def _begun(phrase: str) -> str:
    """Return a pattern of a phrase that begins where a word does; its last word may be longer."""
    edge = r"(?<!\w)" if re.match(r"\w", phrase) else ""
    return edge + r"\s+".join(map(re.escape, phrase.split()))


def _key(phrase: str) -> str:
    return " ".join(phrase.lower().split())


def load_terms(path: str | Path) -> dict[str, str]:
    """Read a file of terms: source phrase, tab, target phrase; one pair per line.

    Blank lines and lines that begin with # are skipped.

    Raises:
        DataError: the file cannot be read, or a line is no pair or contradicts another; names it.
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
                f"{path}, line {number}: {line.strip()[:60]!r} is not a pair of phrases: write the "
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
