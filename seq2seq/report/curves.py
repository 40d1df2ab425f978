"""Charts of the training and validation curves; each chart shows all runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from seq2seq.report.charts import Chart, Line, Points, line_chart, thinned
from seq2seq.report.run import Run

POINTS, FEWEST = 600, 20  # points of a curve: of all runs together; of a run at least
MAX_EXTRA_CHARTS = 80  # charts of curves that CHARTS does not name, divided by the number of runs
MIN_EXTRA_CHARTS = 8  # such charts at least
EXTRA_CHART_POINTS = 100  # points of a curve in such a chart, of all runs together


@dataclass(frozen=True)
class Shown:
    """The definition of a chart of the curves with these names; see `line_chart`."""

    title: str
    note: str
    names: tuple[str, ...]
    log: bool = False
    zero: bool = False


CHARTS = (
    Shown("Loss", "nats per target token, without smoothing", ("train/nll", "val/nll")),
    Shown("Validation BLEU", "higher is better", ("val/bleu", "val/bleu_of_average")),
    Shown("Validation chrF", "higher is better", ("val/chrf",)),
    Shown("Perplexity", "", ("train/perplexity", "val/perplexity"), log=True),
    Shown("Learning rate", "", ("optim/lr",), zero=True),
    Shown("Gradient norm", "before clipping", ("optim/grad_norm",), log=True),
    Shown("Speed", "target tokens per second", ("perf/target_tokens_per_second",), zero=True),
    Shown("Padding", "share of positions without a token", ("perf/padding_share",), zero=True),
    Shown("Waiting for data", "share of the time", ("perf/data_wait_share",), zero=True),
    Shown("Memory", "GiB, most so far", ("perf/memory_gib",), zero=True),
    Shown("Computing", "model TFLOP/s", ("perf/tflops",), zero=True),
)
KNOWN = {name for each in CHARTS for name in each.names}


def curves(runs: Sequence[Run]) -> dict[str, Any]:
    """Draw all curves; for several runs, draw loss and BLEU over tokens and hours, too.

    Return the main charts, more charts, and how many were left out for lack of room.
    """
    main = list(_charts(runs, CHARTS, POINTS))
    if len(runs) > 1:
        main[2:2] = [
            chart
            for shown in CHARTS[:2]
            for x_name, spent in (("million target tokens", tokens), ("hours", hours))
            for chart in _charts(runs, [shown], POINTS, x_name, spent)
        ]
    names = sorted({name for run in runs for name in run.curves} - KNOWN - {"epoch"})
    room = max(MIN_EXTRA_CHARTS, MAX_EXTRA_CHARTS // len(runs))
    extra = [Shown(name, "", (name,)) for name in names[:room]]
    more = list(_charts(runs, extra, EXTRA_CHART_POINTS))
    return {"main": main, "more": more, "left_out": max(0, len(names) - room)}


def _charts(
    runs: Sequence[Run],
    charts: Sequence[Shown],
    points: int,
    x_name: str = "step",
    spent: Callable[[Run], Points] | None = None,
) -> Iterator[Chart]:
    """Draw the charts for which any run has a curve; each shows all runs.

    The curves with the same name have about `points` points, of all runs together. `spent` gives
    the points (step, x) of a run; by default, x is the step.
    """
    most = max(FEWEST, points // len(runs))
    for shown in charts:
        lines = []
        for number, run in enumerate(runs):
            for which, name in enumerate(shown.names):
                if kept := thinned(_curve(run, name, spent), most):
                    what = "average" if name.endswith("_of_average") else name.partition("/")[0]
                    label = [run.name] * (len(runs) > 1) + [what] * (len(shown.names) > 1)
                    # If there are several runs, all curves of a run have the same look.
                    look = number if len(runs) > 1 else which
                    lines.append(Line(" ".join(label), kept, look, _kind(name, kept)))
        if lines:
            yield line_chart(
                shown.title, shown.note, lines, x_name=x_name, log=shown.log, zero=shown.zero
            )


def _curve(run: Run, name: str, spent: Callable[[Run], Points] | None) -> Points:
    """Return a curve over steps, or over the effort that `spent` gives; empty if it gives none."""
    points = run.curves.get(name, [])
    if spent is None:
        return points
    steps, sums = zip((0.0, 0.0), *(found := spent(run)), strict=True)
    return [(float(np.interp(step, steps, sums)), y) for step, y in points] if found else []


def _kind(name: str, points: Points) -> str:
    if name.startswith("train/"):
        return "faint"
    return "dots" if name.startswith("val/") and len(points) <= 40 else "line"


def hours(run: Run) -> Points:
    """Return points (step, hours that all updates up to it took), over all starts of the run."""
    return _sums(run.curves.get("perf/step_seconds", []), 1 / 3600)


def tokens(run: Run) -> Points:
    """Return points (step, millions of target tokens that were read up to it)."""
    seconds = dict(run.curves.get("perf/step_seconds", []))
    speed = run.curves.get("perf/target_tokens_per_second", [])
    return _sums([(step, rate * seconds[step]) for step, rate in speed if step in seconds], 1e-6)


def _sums(of_steps: Points, unit: float) -> Points:
    """Sum `unit` times an effort per step, whose mean is given at the end of each window."""
    total, found = 0.0, []
    for (before, _), (step, value) in pairwise([(0.0, 0.0), *of_steps]):
        total += unit * value * (step - before)
        found.append((step, total))
    return found
