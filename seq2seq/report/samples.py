"""Read `<run>/samples.jsonl`, translations of each validation (entries: docs/reference/files.md).

The file has a line for each validation. `sentences` are the same through the whole run, from short
to long; `worst` are those with the lowest chrF2 of that validation. `token_log_probs` has one
number more than `tokens` if the model wrote the end mark.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

SAMPLES = "samples.jsonl"
Sample = dict[str, Any]  # a line of the file, or a sentence of it


def read_samples(run_dir: Path) -> list[Sample]:
    """Read the entries of a run, without lines that a power cut or a full disk damaged."""
    file = run_dir / SAMPLES
    if not file.is_file():
        return []
    found = []
    # Not `splitlines`: texts may have other characters that Python takes for the end of a line.
    for line in file.read_text(encoding="utf-8", errors="replace").split("\n"):
        try:
            entry = json.loads(line)
            whole = type(entry["step"]) is int and isinstance(entry["sentences"], list)
        except (ValueError, KeyError, TypeError):
            continue
        if whole:
            found.append(entry)
    return found
