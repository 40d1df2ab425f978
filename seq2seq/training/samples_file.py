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
from collections.abc import Iterator
from pathlib import Path
from typing import Any

NAME = "samples.jsonl"


def read_samples(run_dir: Path) -> list[dict[str, Any]]:
    """The lines of a run's file that are whole; none if there is no file."""
    file = run_dir / NAME
    if not file.is_file():
        return []
    return [entry for _, entry in whole_lines(file.read_text(encoding="utf-8", errors="replace"))]


def whole_lines(text: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Lines of the file and what they say, less those that a power cut or a full disk damaged."""
    for line in text.split("\n"):  # texts may hold what Python takes for the end of a line, too
        try:
            entry = json.loads(line)
            whole = type(entry["step"]) is int and isinstance(entry["sentences"], list)
        except (ValueError, KeyError, TypeError):
            continue
        if whole:
            yield line, entry
