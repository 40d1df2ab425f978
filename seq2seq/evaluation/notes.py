"""What a reader should know of scores, told from the texts: nothing here changes a number."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from seq2seq.evaluation.findings import Texts
from seq2seq.evaluation.record import Findings

# Traces of tokenisers in a line that nobody types: a space before its full stop or a comma,
# escapes, marks of subwords and of hyphens.
TOKENISED = r" \.$| , |&(?:apos|quot|amp|#91|#93|#124);|@@ |@-@|▁"
# Likewise of some languages: a space after an elision, before what is cut off, before the high
# punctuation at the end, which only French sets apart.
ELISION = r"|\b[cdjlmnstCDJLMNST]' \w"
TOKENISED_OF = {
    "fr": ELISION,
    "it": rf"{ELISION}| [!?;:]$",
    "ca": rf"{ELISION}| [!?;:]$",
    "en": r"| n't\b| '(?:s|re|ve|ll|m|d)\b| [!?;:]$",
}
SHARE = 0.1  # of lines with such traces from which on they are no accident
GAP = 1.0  # BLEU that normalised punctuation may bring before it is worth a note
SHOWN = 5  # lines that are named


def notes_on(
    texts: Texts, findings: Findings, overlap: Mapping[str, Any], language: str
) -> list[str]:
    """Everything that is remarkable, in words.

    Args:
        texts: that were scored.
        findings: their scores.
        overlap: with the training text, as `Shared.record` gives it.
        language: of the translations.
    """
    tokenised = re.compile(TOKENISED + TOKENISED_OF.get(language, r"| [!?;:]$"))
    return [
        *_on_empty(texts.references),
        *_on_tokens("translations", "Detokenise them", texts.hypotheses, tokenised),
        *_on_tokens(
            "references", "Take the plain text of the test set", texts.references, tokenised
        ),
        *_on_typography(findings),
        *_on_overlap(overlap, findings.sentences),
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


def _on_tokens(
    what: str, remedy: str, lines: Sequence[str], tokenised: re.Pattern[str]
) -> list[str]:
    count = sum(tokenised.search(line) is not None for line in lines)
    if count <= SHARE * len(lines):
        return []
    return [
        f"{count} of {len(lines)} {what} look tokenised (' .' at the end, ' , ', 'l' ', ' n't', "
        "&apos; or @@), and BLEU is that of plain text: its value says nothing beside that of "
        f"other papers and tools. {remedy}"
    ]


def _on_typography(findings: Findings) -> list[str]:
    values = {score.name: score.value for score in findings.scores}
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
