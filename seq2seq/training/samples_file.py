"""The file of what validation translated, `<run>/samples.jsonl`.

A line of the file for each validation:

    {"step": 500, "bleu": 23.1, "sentences": [...], "worst": [...]}

`sentences` are the same through the whole run, from short to long; `worst` have the lowest chrF2
of that validation, the worst first. Each sentence has

    index            its place in the validation set, from 0
    source, reference, hypothesis
    score            log probability of the hypothesis, divided by a function of its length
    chrf             chrF2 of the sentence
    tokens           subwords of the hypothesis, without marks
    token_log_probs  log probability of each, then of the end mark if it was written
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

NAME = "samples.jsonl"


def read_samples(run_dir: Path) -> list[dict[str, Any]]:
    """The lines of a run's file, as far as they are whole; none if there is no file."""
    file = run_dir / NAME
    if not file.exists():
        return []
    return list(entries(raw_lines(file)))


def raw_lines(file: Path) -> list[str]:
    """Its lines with their ends; texts may hold what Python takes for the end of a line, too."""
    with file.open(encoding="utf-8", errors="replace", newline="\n") as lines:
        return list(lines)


def entries(lines: Sequence[str]) -> Iterator[dict[str, Any]]:
    """What lines say, up to the first that is damaged, as by a power cut while it was written."""
    for line in lines:
        try:
            entry = json.loads(line)
            entry["step"], entry["sentences"]
        except (ValueError, KeyError, TypeError):
            return
        yield entry
