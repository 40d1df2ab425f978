"""What translations are worth, and what a reader should know of it: all that follows from texts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from seq2seq.data.fingerprint import text_fingerprint
from seq2seq.evaluation.metrics import corpus_scores, length_ratio
from seq2seq.evaluation.record import Breakdown, Evaluation, Figures, Group
from seq2seq.evaluation.resampling import bootstrap_settings
from seq2seq.inference.text.fallback import degenerate

FAULTS = ("empty", "repetition", "copy", "too long", "too short")
OF_GROUPS = ("BLEU", "chrF2")

# Traces of tokenisers in a line that nobody types: a space before its full stop or a comma,
# escapes, marks of subwords and of hyphens.
TOKENISED = re.compile(r" \.$| , |&(?:apos|quot|amp|#91|#93|#124);|@@ |@-@|▁")
SHARE = 0.1  # of lines with such traces from which on they are no accident
GAP = 1.0  # BLEU that normalised punctuation may bring before it is worth a note
SHOWN = 5  # lines that are named


@dataclass(frozen=True)
class Texts:
    """The lines that are scored; line n of each belongs together.

    Attributes:
        groups: for each property the group of each sentence.
    """

    hypotheses: list[str]
    references: list[str]
    sources: list[str] | None
    groups: Mapping[str, list[str]]

    @property
    def fingerprint(self) -> str:
        """Of the test set: sources, if they are known, and references."""
        return text_fingerprint([*(self.sources or ()), *self.references])


def one_line(text: str) -> str:
    """A text that is a line of a file wherever it is read; it scores the same."""
    return " ".join(text.splitlines()).rstrip()


def score_texts(texts: Texts, language: str) -> Figures:
    """Score translations into a language.

    Raises:
        DataError: there are none, or not as many as references.
    """
    hypotheses, references = texts.hypotheses, texts.references
    return Figures(
        scores=corpus_scores(hypotheses, references, language=language, intervals=True),
        intervals=bootstrap_settings(),
        sentences=len(references),
        length_ratio=length_ratio(hypotheses, references),
        exact_matches=sum(map(str.__eq__, hypotheses, references)),
        degenerate=_degenerate(texts.sources, hypotheses) if texts.sources is not None else {},
        breakdowns=[_breakdown(by, groups, texts) for by, groups in texts.groups.items()],
    )


def _degenerate(sources: Sequence[str], hypotheses: Sequence[str]) -> dict[str, int]:
    """How many translations have each fault; one may have several."""
    found = [degenerate(*pair) for pair in zip(sources, hypotheses, strict=True)]
    counts = Counter(fault for own in found for fault in own)
    return {"any": sum(map(bool, found)), **{name: counts[name] for name in FAULTS}}


def _breakdown(by: str, groups: Sequence[str], texts: Texts) -> Breakdown:
    rows: dict[str, list[int]] = {}
    for row, name in enumerate(groups):
        rows.setdefault(name, []).append(row)
    return Breakdown(by, [_group(name, rows[name], texts) for name in sorted(rows, key=_first)])


def _first(group: str) -> tuple[bool, int]:
    """Groups of numbers by their first one; others after them, as they came."""
    number = re.match(r"\d+", group)
    return (False, int(number[0])) if number else (True, 0)


def _group(name: str, rows: Sequence[int], texts: Texts) -> Group:
    hypotheses, references = (
        [lines[row] for row in rows] for lines in (texts.hypotheses, texts.references)
    )
    scores = corpus_scores(hypotheses, references, OF_GROUPS)
    return Group(name, len(rows), {score.name: score.value for score in scores})


def by_length(sources: Sequence[str]) -> list[str]:
    """The group of each source by its words, which are what spaces separate."""
    return [_range(len(source.split()), (0, 6, 11, 16, 21, 31, 51)) for source in sources]


def by_count(counts: Sequence[int]) -> list[str]:
    """The group of each sentence by how often its rarest word stood in the training text."""
    return [_range(count, (0, 1, 10, 100)) for count in counts]


def _range(value: int, firsts: Sequence[int]) -> str:
    """The range that a value falls into, as `6-10`; the last one is open, as `51+`."""
    first = max(start for start in firsts if start <= value)
    following = next((start for start in firsts if start > value), None)
    if following is None:
        return f"{first}+"
    return f"{first}" if following == first + 1 else f"{first}-{following - 1}"


def stored_texts(record: Evaluation, folder: Path) -> Texts:
    """The texts that a record was made of.

    Args:
        record: of an evaluation.
        folder: that it stands in.

    Raises:
        UserError: a file is missing, or was changed.
    """
    files = record.files
    return Texts(
        record.lines("hypotheses", folder),
        record.lines("references", folder),
        record.lines("sources", folder) if "sources" in files else None,
        read_groups(record.lines("groups", folder)) if "groups" in files else {},
    )


def group_lines(groups: Mapping[str, Sequence[str]]) -> list[str]:
    """A table of tabs: the properties, then for each sentence its group by each of them."""
    rows = zip(*groups.values(), strict=True)
    return ["\t".join(groups), *("\t".join(row) for row in rows)]


def read_groups(lines: Sequence[str]) -> dict[str, list[str]]:
    """From the lines of `group_lines`."""
    names, *rows = [line.split("\t") for line in lines]
    return {name: list(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)}


def notes_on(texts: Texts, figures: Figures, overlap: Mapping[str, Any]) -> list[str]:
    """Everything that is remarkable, in words.

    Args:
        texts: that were scored.
        figures: what follows from them.
        overlap: with the training text, as `Shared.record` gives it.
    """
    return [
        *_on_empty(texts.references),
        *_on_tokens("translations", "Detokenise them", texts.hypotheses),
        *_on_tokens("references", "Take the plain text of the test set", texts.references),
        *_on_typography(figures),
        *_on_overlap(overlap, figures.sentences),
    ]


def _on_empty(references: Sequence[str]) -> list[str]:
    empty = [number for number, line in enumerate(references, 1) if not line]
    if not empty:
        return []
    more = ", ..." if len(empty) > SHOWN else ""
    lines = f"line{'s' * (len(empty) > 1)} {', '.join(map(str, empty[:SHOWN]))}{more}"
    return [
        f"{len(empty)} of {len(references)} references are empty ({lines}): whatever is "
        "translated there counts as wrong. Take these lines out of all files"
    ]


def _on_tokens(what: str, remedy: str, lines: Sequence[str]) -> list[str]:
    count = sum(TOKENISED.search(line) is not None for line in lines)
    if count <= SHARE * len(lines):
        return []
    return [
        f"{count} of {len(lines)} {what} look tokenised (' .' at the end, ' , ', &apos; or "
        "@@), and BLEU is that of plain text: its value says nothing beside that of "
        f"other papers and tools. {remedy}"
    ]


def _on_typography(figures: Figures) -> list[str]:
    values = {score.name: score.value for score in figures.scores}
    gap = values["BLEU-punct"] - values["BLEU"]
    if gap <= GAP:
        return []
    return [
        f"BLEU is {gap:.1f} higher when the punctuation of both sides is normalised (BLEU-punct): "
        "apostrophes, quotation marks or spaces differ from those of the references, no words. "
        "See cleaning.normalise, and translate --typography"
    ]


def _on_overlap(overlap: Mapping[str, Any], sentences: int) -> list[str]:
    if not overlap.get("sources"):
        return []
    return [
        f"{overlap['sources']} of {sentences} sources stand in the training text "
        f"({overlap['pairs']} of them with the same translation): their scores say nothing of "
        "text that is new to the model. See the breakdown by `in training`"
    ]
