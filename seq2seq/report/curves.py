"""Curves of training and validation, all runs in one chart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import accumulate

from seq2seq.html_page import visible
from seq2seq.report.chart import Line, chart, swatch, thinned
from seq2seq.report.run import Run

POINTS, FEW = 600, 100  # of a curve, shared by all runs; a chart is 300 pixels wide
FEWEST = 20  # where many curves must fit into
BYTES = 800_000  # of all charts; half of them are for the main ones


@dataclass(frozen=True)
class Chart:
    """What a chart shows.

    Attributes:
        title, note: above it.
        names: of the curves, as the logger has them.
        log, zero: as `chart` takes them.
    """

    title: str
    note: str
    names: tuple[str, ...]
    log: bool = False
    zero: bool = False


CHARTS = (
    Chart("Loss", "nats per target token, without smoothing", ("train/nll", "val/nll")),
    Chart("Perplexity", "", ("train/perplexity", "val/perplexity"), log=True),
    Chart("Validation BLEU", "higher is better", ("val/bleu", "val/bleu_of_average")),
    Chart("Validation chrF", "higher is better", ("val/chrf",)),
    Chart("Learning rate", "", ("optim/lr",), zero=True),
    Chart("Gradient norm", "before clipping", ("optim/grad_norm",), log=True),
    Chart("Speed", "target tokens per second", ("perf/target_tokens_per_second",), zero=True),
    Chart("Padding", "share of positions without a token", ("perf/padding_share",), zero=True),
    Chart("Waiting for data", "share of the time", ("perf/data_wait_share",), zero=True),
    Chart("Memory", "GiB, most so far", ("perf/memory_gib",), zero=True),
    Chart("Computing", "model TFLOP/s", ("perf/tflops",), zero=True),
)
KNOWN = {name for each in CHARTS for name in each.names}


def curves_section(runs: Sequence[Run]) -> str:
    """All curves; those that the project has no chart for at their end, folded."""
    if not any(run.curves for run in runs):
        return (
            '<p class="missing">No curves: the runs were trained with logger=none, or were stopped '
            "before their first values.</p>"
        )
    main, left_out = _fitting(runs, CHARTS, max(FEW, POINTS // len(runs)), BYTES // 2)
    names = sorted({name for run in runs for name in run.curves} - KNOWN)
    others = [Chart(name, "", (name,)) for name in names]
    rest, lacking = _fitting(runs, others, FEW, BYTES - len(main.encode()))
    more = f'<details><summary>More curves</summary><div class="charts">{rest}</div></details>'
    note = (
        "Point at a chart, or use the arrow keys on it, to read its values; otherwise its legend "
        "shows the last ones."
    )
    if count := left_out + lacking:
        note += f" {count} charts have no room beside the others: a report of fewer runs has them."
    return f'<p>{note}</p>{_legend(runs)}<div class="charts">{main}</div>{more if rest else ""}'


def _fitting(
    runs: Sequence[Run], charts: Sequence[Chart], points: int, limit: int
) -> tuple[str, int]:
    """Charts within so many bytes, of fewer points if need be, and how many have no room."""
    while True:
        found = list(_charts(runs, charts, points))
        sizes = list(accumulate(len(one.encode()) for one in found))
        room = sum(size <= limit for size in sizes)
        if room == len(found) or points <= FEWEST:
            return "".join(found[:room]), len(found) - room
        points = max(FEWEST, points * limit // sizes[-1])


def _charts(runs: Sequence[Run], charts: Sequence[Chart], points: int) -> Iterator[str]:
    """Those charts that any run has a curve for, of at most so many points each."""
    for each in charts:
        lines = [
            Line(_label(run, name, each, runs), kept, look, _kind(name, kept))
            for look, run in enumerate(runs)
            for name in each.names
            if (kept := thinned(run.curves.get(name, []), points))
        ]
        if lines:
            yield chart(each.title, each.note, lines, log=each.log, zero=each.zero)


def _label(run: Run, name: str, each: Chart, runs: Sequence[Run]) -> str:
    """What tells a line from the others of its chart; nothing if it is the only one."""
    what = "average" if name.endswith("_of_average") else name.partition("/")[0]
    return " ".join([run.name] * (len(runs) > 1) + [what] * (len(each.names) > 1))


def _kind(name: str, points: Sequence[tuple[float, float]]) -> str:
    if name.startswith("train/"):
        return "faint"
    return "dots" if name.startswith("val/") and len(points) <= 40 else "line"


def _legend(runs: Sequence[Run]) -> str:
    """Which line is which run; one run needs none."""
    if len(runs) == 1:
        return ""
    keys = "".join(
        f"<span>{swatch(Line('', (), look))}{escape(visible(run.name))}</span>"
        for look, run in enumerate(runs)
    )
    return f'<div class="keys">{keys}</div>'
