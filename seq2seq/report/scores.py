"""Scores of the runs' evaluations, with their intervals: a table for each test set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from seq2seq.evaluation.record import Evaluation
from seq2seq.report.data import Table
from seq2seq.report.run import Run


@dataclass(frozen=True)
class TestSet:
    """Evaluations whose scores can be compared: the test sets have the same name and text."""

    found: list[tuple[Run, Evaluation]]

    @property
    def names(self) -> list[str]:
        """The names of all scores that any of the evaluations has."""
        return list(dict.fromkeys(score.name for _, one in self.found for score in one.scores))

    @property
    def signatures(self) -> str:
        each = (f"{s.name:8} {s.signature}" for _, one in self.found for s in one.scores)
        return "\n".join(dict.fromkeys(each))

    @property
    def axis(self) -> tuple[float, float]:
        """The ends of the axis on which all intervals of BLEU are drawn, with some margin."""
        bleu = [score for _, one in self.found if (score := one.score("BLEU"))]
        ends = [e for score in bleu for e in (score.low, score.value, score.high) if e is not None]
        low, high = (min(ends), max(ends)) if ends else (0.0, 100.0)
        pad = max(0.08 * (high - low), 0.5)
        return max(0.0, low - pad), high + pad

    def place(self, value: float) -> float:
        """Return the position of a value of BLEU on the axis, in percent of its length."""
        low, high = self.axis
        return round(100 * (value - low) / (high - low), 1)

    @property
    def breakdowns(self) -> list[Table]:
        """Tables of BLEU by group of sentences, with a column for each run."""
        tables = []
        for by in dict.fromkeys(b.by for _, one in self.found for b in one.breakdowns):
            having = [(run, b) for run, one in self.found for b in one.breakdowns if b.by == by]
            columns = [f"{run.name} BLEU" for run, _ in having] if len(having) > 1 else ["BLEU"]
            rows = [["", "sentences", *columns]]
            for name in dict.fromkeys(group.name for _, b in having for group in b.groups):
                groups = [next((g for g in b.groups if g.name == name), None) for _, b in having]
                size = next(f"{g.sentences:,}" for g in groups if g)
                scores = [g.scores.get("BLEU") if g else None for g in groups]
                rows.append([name, size, *("-" if s is None else f"{s:.1f}" for s in scores)])
            tables.append(Table(f"By {by}", rows))
        return tables


def by_test_set(runs: Sequence[Run]) -> list[TestSet]:
    """Group the evaluations of all runs by test set."""
    sets: dict[tuple[str, str], list[tuple[Run, Evaluation]]] = {}
    for run in runs:
        for one in run.evaluations.values():
            sets.setdefault((one.label, one.data["fingerprint"]), []).append((run, one))
    return list(map(TestSet, sets.values()))
