"""The table of all curves of a run: `<run>/metrics/version_0/metrics.csv`."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from seq2seq.files import replace_text
from seq2seq.trackers import Tracker

METRICS = Path("metrics/version_0/metrics.csv")
Points = list[tuple[float, float]]


class CsvTracker(Tracker):
    """A tracker that writes one table for the whole run.

    A row is written to the file as soon as it is logged. Columns are sorted; a new column makes
    the tracker rewrite the file. Rows after `step` updates are removed, since the run makes them
    again, and those of a validation that was due then and is not done (`validated`).
    """

    def __init__(self, file: Path, step: int = 0, validated: bool = True):
        self.file = file
        rows = list(whole_rows(file)) if file.exists() else []
        # Steps count from 0: rows of the last of `step` updates have step - 1.
        kept = [row for row in rows if int(row["step"]) < step]
        kept = [row for row in kept if "val/bleu_of_average" not in row]  # made at the very end
        if not validated:
            kept = [r for r in kept if int(r["step"]) < step - 1 or not any("val/" in k for k in r)]
        file.parent.mkdir(parents=True, exist_ok=True)
        self._rewrite(kept)

    def log(self, row: Mapping[str, float], step: int) -> None:
        cells = {**row, "step": step}
        if not set(cells) <= set(self.columns):
            self._rewrite([*whole_rows(self.file), cells])
            return
        with self.file.open("a", encoding="utf-8", newline="") as file:
            csv.DictWriter(file, self.columns).writerow(cells)

    def _rewrite(self, rows: Sequence[Mapping[str, Any]]) -> None:
        self.columns = sorted({name for row in rows for name in row})
        text = io.StringIO(newline="")
        table = csv.DictWriter(text, self.columns)
        if rows:
            table.writeheader()
        table.writerows(rows)
        replace_text(self.file, text.getvalue())


def whole_rows(file: Path) -> Iterator[dict[str, str]]:
    """Yield the rows of the table, without those that are damaged, for example by a power cut."""
    text = file.read_text(encoding="utf-8", errors="replace")
    for row in csv.DictReader(text[: text.rfind("\n") + 1].splitlines()):
        found = {name: cell for name, cell in row.items() if cell != ""}  # None: the row is short
        try:
            int(found["step"]), list(map(float, found.values()))
        except (KeyError, ValueError, TypeError):
            continue
        yield found


def read_curves(file: Path) -> dict[str, Points]:
    """Read the points (updates made, value) of each curve, in the order of updates.

    The table counts updates from 0, the points from 1.
    """
    found: dict[str, dict[float, float]] = {}
    rows = list(whole_rows(file)) if file.exists() else []
    last = max((int(row["step"]) for row in rows if row.get("train/nll")), default=10**12) + 1
    for row in rows:
        step = min(int(row["step"]) + 1, last)  # an average's row has a step after the last update
        for name, cell in row.items():
            if name != "step" and math.isfinite(value := float(cell)):
                found.setdefault(name, {})[step] = value
    return {name: sorted(points.items()) for name, points in found.items()}
