"""The texts of an evaluation, and all that follows from them: scores, groups, notes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from seq2seq.data.fingerprint import text_fingerprint
from seq2seq.evaluation.metrics import corpus_scores, length_ratio
from seq2seq.evaluation.record import ROLES, Breakdown, Evaluation, Figures, Group
from seq2seq.evaluation.significance import bootstrap_settings
from seq2seq.inference.text.fallback import degenerate

FAULTS = ("empty", "repetition", "copy", "too long", "too short")
OF_GROUPS = ("BLEU", "chrF2")

# Traces that tokenisers leave in a line: a space before the full stop or a comma, escapes, marks of
# subwords and of hyphens.
TOKENISED = re.compile(r" \.$| , |&(?:apos|quot|amp|#91|#93|#124);|@@ |@-@|▁")
SHARE = 0.1  # a larger share of lines with such traces gets a note
GAP = 1.0  # a larger gain of BLEU by normalised punctuation gets a note
SHOWN = 5  # empty lines whose numbers a note lists


@dataclass(frozen=True)
class Texts:
    """The lines that are scored: line n of one list belongs to line n of the others."""

    hypotheses: list[str]
    references: list[str]
    sources: list[str] | None
    # For each property, the group of each sentence.
    groups: Mapping[str, list[str]] = field(default_factory=dict)

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the test set: of its references, and its sources if they are known."""
        return text_fingerprint([*(self.sources or ()), *self.references])

    def by_role(self) -> dict[str, list[str]]:
        """Return the lines of each file of an evaluation, without the files that it lacks."""
        lines = {"hypotheses": self.hypotheses, "references": self.references}
        return lines | ({} if self.sources is None else {"sources": self.sources})


def one_line(text: str) -> str:
    """Make a text one line for every program that reads it; its scores stay the same."""
    return " ".join(text.splitlines()).rstrip()


def score_texts(texts: Texts, language: str) -> Figures:
    """Score translations into a language.

    Raises:
        DataError: there are no translations, or not as many as references.
    """
    hypotheses, references, sources = texts.hypotheses, texts.references, texts.sources
    wrong: dict[str, int] = {}
    if sources is not None:
        found = [degenerate(*pair) for pair in zip(sources, hypotheses, strict=True)]
        counts = Counter(fault for own in found for fault in own)
        wrong = {"any": sum(map(bool, found)), **{name: counts[name] for name in FAULTS}}
    return Figures(
        scores=corpus_scores(hypotheses, references, language=language, intervals=True),
        intervals=bootstrap_settings(),
        sentences=len(references),
        length_ratio=length_ratio(hypotheses, references),
        exact_matches=sum(map(str.__eq__, hypotheses, references)),
        degenerate=wrong,
        breakdowns=[_breakdown(by, groups, texts) for by, groups in texts.groups.items()],
    )


def _breakdown(by: str, groups: Sequence[str], texts: Texts) -> Breakdown:
    found = []
    for name in sorted(dict.fromkeys(groups), key=_first):
        rows = [row for row, own in enumerate(groups) if own == name]
        hypotheses, references = (
            [lines[row] for row in rows] for lines in (texts.hypotheses, texts.references)
        )
        scores = corpus_scores(hypotheses, references, OF_GROUPS)
        found.append(Group(name, len(rows), {score.name: score.value for score in scores}))
    return Breakdown(by, found)


def _first(group: str) -> tuple[bool, int]:
    """Sort key of a group: ranges of numbers by their first number, then all others as given."""
    number = re.match(r"\d+", group)
    return (False, int(number[0])) if number else (True, 0)


def range_of(value: int, firsts: Sequence[int]) -> str:
    """Return the range that contains a value, such as `6-10`; the last range is open: `51+`."""
    first = max(start for start in firsts if start <= value)
    following = next((start for start in firsts if start > value), None)
    if following is None:
        return f"{first}+"
    return f"{first}" if following == first + 1 else f"{first}-{following - 1}"


def stored_texts(record: Evaluation, folder: Path) -> Texts:
    """Read the texts that were scored for a record in this folder, without their groups.

    Raises:
        UserError: a file is missing, or was changed.
    """
    lines = {role: record.lines(role, folder) for role in ROLES if role in record.files}
    return Texts(lines["hypotheses"], lines["references"], lines.get("sources"))


def notes_on(texts: Texts, figures: Figures, overlap: Mapping[str, Any]) -> Iterator[str]:
    """Yield notes on what a reader of the scores should know; `overlap` is of `Shared.record`."""
    empty = [str(number) for number, line in enumerate(texts.references, 1) if not line]
    if empty:
        more = ", ..." if len(empty) > SHOWN else ""
        yield (
            f"{len(empty)} of {len(texts.references)} references are empty "
            f"(line{'s' * (len(empty) > 1)} {', '.join(empty[:SHOWN])}{more}): whatever is "
            "translated there counts as wrong. Take these lines out of all files"
        )
    for what, lines, remedy in (
        ("translations", texts.hypotheses, "Detokenise them"),
        ("references", texts.references, "Take the plain text of the test set"),
    ):
        count = sum(TOKENISED.search(line) is not None for line in lines)
        if count > SHARE * len(lines):
            yield (
                f"{count} of {len(lines)} {what} look tokenised (' .' at the end, ' , ', &apos; or "
                "@@), but BLEU needs plain text: its value cannot be compared with those of "
                f"other papers and tools. {remedy}"
            )
    values = {score.name: score.value for score in figures.scores}
    gap = values["BLEU-punct"] - values["BLEU"]
    if gap > GAP:
        yield (
            f"BLEU is {gap:.1f} higher when the punctuation of both sides is normalised "
            "(BLEU-punct): apostrophes, quotation marks or spaces differ from those of the "
            "references, no words. See cleaning.normalise, and translate --french-typography"
        )
    if overlap.get("sources"):
        yield (
            f"{overlap['sources']} of {figures.sentences} sources are in the training text "
            f"({overlap['pairs']} of them with the same translation): their scores do not "
            "measure quality on new text. See the breakdown by `in training`"
        )
