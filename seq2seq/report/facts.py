"""The numbers of a run that one asks for first."""

from __future__ import annotations

from statistics import median

from seq2seq.data.report import duration
from seq2seq.report.run import Run
from seq2seq.report.scores import interval, main_score

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
    if best := max((value for _, value in run.curves.get("val/bleu", ())), default=None):
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
    points = run.curves.get("perf/step_seconds", [])
    before = [0.0, *(step for step, _ in points)]
    total = sum(value * (step - last) for (step, value), last in zip(points, before, strict=False))
    return (duration(total), "without validation") if points else None


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
