"""The numbers of a run that one asks for first."""

from __future__ import annotations

from statistics import median

from seq2seq.evaluation.record import Evaluation, Score
from seq2seq.report.curves import hours
from seq2seq.report.data import duration
from seq2seq.report.run import Run

Fact = tuple[str, str]  # a number, and what else there is to say of it


def facts(run: Run) -> dict[str, Fact]:
    """By name, as far as they are known."""
    found: dict[str, Fact | None] = {
        "BLEU": _bleu(run),
        "chrF2": _chrf(run),
        "parameters": (f"{run.origin.parameters:,}", "") if run.origin else None,
        "updates": _updates(run),
        "time of updates": _time(run),
        "speed": _speed(run),
        "hardware": _hardware(run),
    }
    return {name: fact for name, fact in found.items() if fact}


def _bleu(run: Run) -> Fact | None:
    if main := main_score(run):
        evaluation, score = main
        ends = interval(score)
        return f"{score.value:.1f}", f"{evaluation.label}" + (f", 95 %: {ends}" if ends else "")
    best = max((value for _, value in run.curves.get("val/bleu", ())), default=None)
    if best is not None:
        return f"{best:.1f}", "validation, best"
    return None


def _chrf(run: Run) -> Fact | None:
    main = main_score(run)
    if main and (score := main[0].score("chrF2")):
        return f"{score.value:.1f}", interval(score) and f"95 %: {interval(score)}"
    if points := run.curves.get("val/chrf"):
        return f"{points[-1][1]:.1f}", "validation, last"
    return None


def _updates(run: Run) -> Fact | None:
    steps = int(max((points[-1][0] for points in run.curves.values()), default=0))
    if not run.summary:
        return (f"{steps:,}", "not finished") if steps else None
    early = "stopped early" if run.summary.get("stopped_early") else ""
    best = run.summary.get("best_step")
    return f"{run.summary.get('steps', steps):,}", early or (f"best at {best:,}" if best else "")


def _time(run: Run) -> Fact | None:
    """Time of all updates, over all starts of the run; what was made twice counts once."""
    spent = hours(run)
    return (duration(3600 * spent[-1][1]), "without validation") if spent else None


def _speed(run: Run) -> Fact | None:
    speeds = [value for _, value in run.curves.get("perf/target_tokens_per_second", ())]
    return (f"{median(speeds):,.0f}", "target tokens/s, median") if speeds else None


def _hardware(run: Run) -> Fact | None:
    if not run.origin or not run.origin.starts:
        return None
    start = run.origin.starts[-1]
    device, _, precision = start.device.partition(", ")
    several = f"{start.processes} × " if start.processes > 1 else ""
    return several + device, precision.partition(";")[0].partition(" (")[0]


def main_score(run: Run) -> tuple[Evaluation, Score] | None:
    """The evaluation that stands for a run, one of a test set if there is one, and its BLEU."""
    found = [(e, score) for e in run.evaluations.values() if (score := e.score("BLEU"))]
    found.sort(key=lambda one: ("test" not in one[0].data["split"], one[1].low is None))
    return found[0] if found else None


def interval(score: Score) -> str:
    """The interval of a score, in words; nothing if there is none."""
    return "" if score.low is None else f"{score.low:.1f} to {score.high:.1f}"
