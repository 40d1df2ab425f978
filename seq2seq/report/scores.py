"""Scores of the evaluations that lie in the runs, with their intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from seq2seq.evaluation.record import Evaluation, Score
from seq2seq.html_page import number_table, visible
from seq2seq.report.run import Run

Found = list[tuple[Run, Evaluation]]  # evaluations of one test set


def scores_section(runs: Sequence[Run]) -> str:
    """A table for each test set."""
    parts = [_test_set(found) for found in by_test_set(runs)]
    lacking = [run.name for run in runs if not run.evaluations]
    if lacking:
        names = escape(visible(", ".join(lacking)))
        parts.append(
            f'<p class="missing">Not evaluated: {names}. To do so: '
            "<code>python scripts/evaluate.py bundle=RUN data=NAME split=test</code>, then "
            "<code>python scripts/report.py RUN</code>.</p>"
        )
    return "".join(parts)


def by_test_set(runs: Sequence[Run]) -> list[Found]:
    """Evaluations whose scores can be compared: the same text, and not only the same name.

    Of those of older versions only the name is known; they stand last.
    """
    sets: dict[tuple[str, str], Found] = {}
    for run in runs:
        for one in run.evaluations.values():
            sets.setdefault((one.label, one.data["fingerprint"]), []).append((run, one))
    return sorted(sets.values(), key=lambda found: not found[0][1].data["fingerprint"])


def main_score(run: Run) -> tuple[Evaluation, Score] | None:
    """The evaluation that stands for a run, one of a test set if there is one, and its BLEU."""
    found = [(e, score) for e in run.evaluations.values() if (score := e.score("BLEU"))]
    found.sort(key=lambda one: ("test" not in one[0].data["split"], one[1].low is None))
    return found[0] if found else None


def interval(score: Score) -> str:
    """The interval of a score, in words; nothing if there is none."""
    return "" if score.low is None else f"{score.low:.1f} to {score.high:.1f}"


def _test_set(found: Found) -> str:
    label, fingerprint = found[0][1].label, found[0][1].data["fingerprint"]
    names = list(dict.fromkeys(s.name for _, one in found for s in one.scores))
    ends = [end for _, one in found if (s := one.score("BLEU"))
            for end in (s.low, s.value, s.high) if end is not None]  # fmt: skip
    low, high = (min(ends), max(ends)) if ends else (0.0, 100.0)
    pad = max(0.08 * (high - low), 0.5)
    head = ["", "BLEU, 95 % interval", *names, "length ratio", "exact"]
    rows = [_row(run, one, names, low - pad, high + pad) for run, one in found]
    cells = "".join(f'<th scope="col">{escape(name)}</th>' for name in head)
    same = f", fingerprint <code>{escape(fingerprint)}</code>" if fingerprint else ""
    drawn = f" The picture goes from {low - pad:.1f} to {high + pad:.1f}."
    if any(score.low is not None for _, one in found for score in one.scores):
        drawn = f" Intervals by bootstrap.{drawn}"
    several = (
        " That intervals overlap does not mean that systems are equal: "
        "<code>python scripts/compare.py RUN RUN</code> tests it."
    )
    return (
        f"<h3>{escape(visible(label))}</h3><p>{found[0][1].sentences:,} sentences{same}."
        f"{drawn}{several if len(found) > 1 else ''}</p>"
        f'<div class="wide"><table class="numbers scores"><thead><tr>{cells}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>{_details(found)}"
    )


def _row(run: Run, one: Evaluation, names: Sequence[str], low: float, high: float) -> str:
    scores = [one.score(name) for name in names]
    cells = [
        f"<td>{s.value:.2f}<small>{interval(s)}</small></td>" if s else "<td>-</td>" for s in scores
    ]
    ratio = "-" if math.isnan(one.length_ratio) else f"{one.length_ratio:.3f}"
    exact = "-" if one.exact_matches < 0 else f"{one.exact_matches:,}"
    bleu = one.score("BLEU")
    return (
        f'<tr><th scope="row">{escape(visible(run.name))}<small>{escape(_how(one))}</small></th>'
        f"<td>{_whisker(bleu, low, high) if bleu else ''}</td>{''.join(cells)}"
        f"<td>{ratio}</td><td>{exact}</td></tr>"
    )


def _how(one: Evaluation) -> str:
    """Which weights, and how they were searched."""
    step = (one.model or {}).get("step")
    decode = one.decode or {}
    strategy = decode.get("strategy", "beam")
    search = f"beam {decode['beam']}" if strategy == "beam" and "beam" in decode else strategy
    return ", ".join([f"step {step:,}"] * (step is not None) + [search] * (one.decode is not None))


def _whisker(score: Score, low: float, high: float) -> str:
    """A dot for the value, a bar for the interval."""

    def place(value: float) -> float:
        return 100 * (value - low) / (high - low)

    bar = ""
    if score.low is not None and score.high is not None:
        left, right = place(score.low), place(score.high)
        bar = f'<i style="left:{left:.1f}%;width:{right - left:.1f}%"></i>'
    text = f"{score.value:.1f}" + (f", {interval(score)}" if bar else ", no interval")
    return (
        f'<div class="whisker" role="img" aria-label="{text}">{bar}'
        f'<b style="left:{place(score.value):.1f}%"></b></div>'
    )


def _details(found: Found) -> str:
    """Notes, faults, breakdowns and signatures."""
    parts = []
    for run, one in found:
        faults = [f"{name} {count:,}" for name, count in one.degenerate.items()
                  if count and name != "any"]  # fmt: skip
        notes = [*one.notes, *(["degenerate: " + ", ".join(faults)] if faults else [])]
        name = f"{run.name}: " if len(found) > 1 else ""
        parts += [f"<p>{escape(visible(name + note))}</p>" for note in notes]
    kinds = list(dict.fromkeys(b.by for _, one in found for b in one.breakdowns))
    tables = "".join(_breakdown(found, by) for by in kinds)
    if tables:
        parts.append(f'<details><summary>By kind of sentence</summary><div class="grid">{tables}'
                     "</div></details>")  # fmt: skip
    lines = dict.fromkeys(f"{s.name:8} {s.signature}" for _, one in found for s in one.scores)
    text = escape(visible("\0".join(lines)).replace("‹U+0000›", "\n"))
    parts.append(f"<details><summary>Signatures</summary><pre>{text}</pre></details>")
    return "".join(parts)


def _breakdown(found: Found, by: str) -> str:
    """BLEU of groups of sentences, a column for each run."""
    having = [(run, b) for run, one in found for b in one.breakdowns if b.by == by]
    names = list(dict.fromkeys(group.name for _, b in having for group in b.groups))
    columns = [f"{run.name} BLEU" for run, _ in having] if len(having) > 1 else ["BLEU"]
    head = ["", "sentences", *columns]
    rows = []
    for name in names:
        groups = [next((g for g in b.groups if g.name == name), None) for _, b in having]
        size = next(f"{g.sentences:,}" for g in groups if g)
        scores = [g.scores.get("BLEU") if g else None for g in groups]
        rows.append([name, size, *("-" if s is None else f"{s:.1f}" for s in scores)])
    return number_table(f"By {by}", [head, *rows])
