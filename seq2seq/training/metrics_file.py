"""The table of all that was logged, `<run>/metrics/version_0/metrics.csv`."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

METRICS = Path("metrics/version_0/metrics.csv")


def whole_rows(file: Path) -> Iterator[dict[str, str]]:
    """Its rows, less those that are damaged, as by a power cut while they were written."""
    text = file.read_text(encoding="utf-8", errors="replace")
    for row in csv.DictReader(text[: text.rfind("\n") + 1].splitlines()):
        found = {name: cell for name, cell in row.items() if cell != ""}  # None: the row is short
        try:
            int(found["step"]), list(map(float, found.values()))
        except (KeyError, ValueError, TypeError):
            continue
        yield found
