"""The key numbers of a run, at the top of its report."""

from __future__ import annotations

from statistics import median

from seq2seq.evaluation.record import Evaluation, Score
from seq2seq.report.curves import hours
from seq2seq.report.data import duration
from seq2seq.report.run import Run

Fact = tuple[str, str]  # a number, and a remark on it


def facts(run: Run) -> dict[str, Fact]:
    """Return the numbers of a run that are known, by name."""
    found: dict[str, Fact] = {}
    main, validated = main_score(run), best_of_validation(run)
    if main:
        evaluation, score = main
        ends = f", 95 %: {interval(score)}" if interval(score) else ""
        found["BLEU"] = f"{score.value:.1f}", f"{evaluation.label}{ends}"
    elif validated is not None:
        found["BLEU"] = f"{validated:.1f}", "validation, best"
    if main and (score_of_chrf := main[0].score("chrF2")):
        ends = interval(score_of_chrf)
        found["chrF2"] = f"{score_of_chrf.value:.1f}", ends and f"95 %: {ends}"
    elif points := run.curves.get("val/chrf"):
        found["chrF2"] = f"{points[-1][1]:.1f}", "validation, last"
    if run.origin:
        found["parameters"] = f"{run.origin.parameters:,}", ""
    steps = int(max((points[-1][0] for points in run.curves.values()), default=0))
    if run.summary:
        best = run.summary.get("best_step")
        how = "stopped early" if run.summary.get("stopped_early") else best and f"best at {best:,}"
        found["updates"] = f"{run.summary.get('steps', steps):,}", how or ""
    elif steps:
        found["updates"] = f"{steps:,}", "not finished"
    if spent := hours(run):  # over all starts of the run; repeated updates count once
        found["time of updates"] = duration(3600 * spent[-1][1]), "without validation"
    if speeds := [value for _, value in run.curves.get("perf/target_tokens_per_second", ())]:
        found["speed"] = f"{median(speeds):,.0f}", "target tokens/s, median"
    if run.origin and run.origin.starts:
        start = run.origin.starts[-1]
        device, _, precision = start.device.partition(", ")
        several = f"{start.processes} × " if start.processes > 1 else ""
        found["hardware"] = several + device, precision.partition(";")[0].partition(" (")[0]
    return found


def best_of_validation(run: Run) -> float | None:
    """Return the highest validation BLEU."""
    return max((bleu for _, bleu in run.curves.get("val/bleu", ())), default=None)


def main_score(run: Run) -> tuple[Evaluation, Score] | None:
    """Return the run's main evaluation, of a test split if there is one, and its BLEU."""
    found = [(e, score) for e in run.evaluations.values() if (score := e.score("BLEU"))]
    found.sort(key=lambda one: ("test" not in one[0].data["split"], one[1].low is None))
    return found[0] if found else None


def interval(score: Score) -> str:
    """Format the interval of a score; empty if the score has none."""
    return "" if score.low is None else f"{score.low:.1f} to {score.high:.1f}"
