"""Scores of the evaluations that lie in the runs, with their intervals: a table a test set."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from seq2seq.evaluation.record import Evaluation, Score
from seq2seq.report.data import Table
from seq2seq.report.facts import interval
from seq2seq.report.run import Run

Found = list[tuple[Run, Evaluation]]  # evaluations of one test set


def by_test_set(runs: Sequence[Run]) -> list[Found]:
    """Evaluations whose scores can be compared: the same text, and not only the same name."""
    sets: dict[tuple[str, str], Found] = {}
    for run in runs:
        for one in run.evaluations.values():
            sets.setdefault((one.label, one.data["fingerprint"]), []).append((run, one))
    return list(sets.values())


def score_table(found: Found) -> dict[str, Any]:
    """What the page shows of a test set."""
    first = found[0][1]
    names = list(dict.fromkeys(score.name for _, one in found for score in one.scores))
    bleu = [score for _, one in found if (score := one.score("BLEU"))]
    ends = [e for one in bleu for e in (one.low, one.value, one.high) if e is not None]
    low, high = (min(ends), max(ends)) if ends else (0.0, 100.0)
    pad = max(0.08 * (high - low), 0.5)
    low, high = max(0.0, low - pad), high + pad
    signatures = dict.fromkeys(f"{s.name:8} {s.signature}" for _, one in found for s in one.scores)
    return {
        "label": first.label,
        "fingerprint": first.data["fingerprint"],
        "sentences": first.sentences,
        "intervals": any(s.low is not None for _, one in found for s in one.scores),
        "low": low,
        "high": high,
        "names": names,
        "rows": [_row(run, one, names, low, high) for run, one in found],
        "notes": list(_notes(found)),
        "breakdowns": [
            _breakdown(found, by)
            for by in dict.fromkeys(b.by for _, one in found for b in one.breakdowns)
        ],
        "signatures": "\n".join(signatures),
    }


def _row(
    run: Run, one: Evaluation, names: Sequence[str], low: float, high: float
) -> dict[str, Any]:
    scores = [one.score(name) for name in names]
    bleu = one.score("BLEU")
    return {
        "name": run.name,
        "how": _how(one),
        "whisker": bleu and _whisker(bleu, low, high),
        "scores": [(f"{s.value:.2f}", interval(s)) if s else ("-", "") for s in scores],
        "length_ratio": f"{one.length_ratio:.3f}",
        "exact": f"{one.exact_matches:,}",
    }


def _how(one: Evaluation) -> str:
    """Which weights, and how they were searched."""
    step = (one.model or {}).get("step")
    return ", ".join([f"step {step:,}"] * (step is not None) + [one.search] * bool(one.search))


def _whisker(score: Score, low: float, high: float) -> dict[str, Any]:
    """Where a dot for the value and a bar for the interval stand, in percent of the width."""

    def place(value: float) -> float:
        return round(100 * (value - low) / (high - low), 1)

    left = width = None
    if score.low is not None and score.high is not None:
        left, width = place(score.low), round(place(score.high) - place(score.low), 1)
    label = f"{score.value:.1f}, {interval(score) or 'no interval'}"
    return {"label": label, "at": place(score.value), "left": left, "width": width}


def _notes(found: Found) -> Iterator[str]:
    """What is remarkable of each evaluation, and the faults of its translations."""
    for run, one in found:
        name = f"{run.name}: " if len(found) > 1 else ""
        faults = [f"{fault} {n:,}" for fault, n in one.degenerate.items() if n and fault != "any"]
        yield from (name + note for note in one.notes)
        if faults:
            yield f"{name}degenerate: {', '.join(faults)}"


def _breakdown(found: Found, by: str) -> Table:
    """BLEU of groups of sentences, a column for each run."""
    having = [(run, b) for run, one in found for b in one.breakdowns if b.by == by]
    columns = [f"{run.name} BLEU" for run, _ in having] if len(having) > 1 else ["BLEU"]
    rows = [["", "sentences", *columns]]
    for name in dict.fromkeys(group.name for _, b in having for group in b.groups):
        groups = [next((g for g in b.groups if g.name == name), None) for _, b in having]
        size = next(f"{g.sentences:,}" for g in groups if g)
        scores = [g.scores.get("BLEU") if g else None for g in groups]
        rows.append([name, size, *("-" if s is None else f"{s:.1f}" for s in scores)])
    return Table(f"By {by}", rows)
