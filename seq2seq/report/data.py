"""The data that runs were trained on: how much, how long, what was dropped."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from seq2seq.data.report import Report, percent, sides_table, vocabulary_table
from seq2seq.html_page import grid, number_table, visible
from seq2seq.report.chart import Line, chart
from seq2seq.report.run import Run


def data_section(runs: Sequence[Run]) -> str:
    """A part for each prepared corpus, whichever runs it was used by."""
    corpora: dict[str, tuple[Report, list[str]]] = {}
    for run in runs:
        if run.data:
            corpora.setdefault(run.data.fingerprint, (run.data, []))[1].append(run.name)
    parts = [_corpus(report, names if len(runs) > 1 else []) for report, names in corpora.values()]
    lacking = [run.name for run in runs if not run.data]
    if lacking:
        names = escape(visible(", ".join(lacking)))
        parts.append(
            f'<p class="missing">Nothing is known of the data of {names}: it was streamed, or '
            "trained by an older version.</p>"
        )
    return "".join(parts)


def _corpus(report: Report, names: Sequence[str]) -> str:
    of = f" Used by {', '.join(names)}." if names else ""
    lost = [[reason, f"{count:,}", percent(count, report.read)]
            for reason, count in report.dropped.items() if count]  # fmt: skip
    sides, words = sides_table(report), vocabulary_table(report)
    return (
        f"<h3>{escape(visible(report.name))}</h3><p>{report.read:,} pairs read, {report.kept:,} "
        f"kept ({percent(report.kept, report.read)}). Fingerprint "
        f"<code>{escape(report.fingerprint)}</code>.{escape(visible(of))}</p>"
        f'<div class="charts">{length_chart(report)}{ratio_chart(report)}</div>'
        + grid(
            number_table(sides.title, sides.rows, sides.note),
            number_table(words.title, words.rows, words.note),
            number_table("Dropped", [["", "pairs", "of all read"], *lost]) if lost else "",
        )
    )


def length_chart(report: Report) -> str:
    """Histograms of tokens per sentence, up to what 99 % do not exceed."""
    end = max(report.length(side, 0.99) for side in (0, 1)) + 1
    sides = enumerate(zip(("source", "target"), report.lengths, strict=True))
    lines = [
        Line(name, [*enumerate((counts + [0] * end)[:end]), (end, 0)], look, "stairs")
        for look, (name, counts) in sides
    ]
    note = "pairs by tokens of a side; the longest 1 % are left out"
    return chart("Sentence lengths", note, lines, x_name="tokens", zero=True)


def ratio_chart(report: Report) -> str:
    """Histogram of target tokens per source token; bins of the report, from -2.05 by 0.1."""
    points = [(round(2 ** ((i - 20.5) / 10), 4), count) for i, count in enumerate(report.ratios)]
    line = Line("pairs", [*points, (round(2**2.05, 4), 0)], 0, "stairs")
    note = "pairs by target tokens for each source token; the outer bars hold what is beyond"
    return chart("Length ratios", note, [line], x_name="ratio", zero=True)
