"""The data that runs were trained on: the page of a prepared corpus, and what a run shows of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from string import Template
from typing import Any

import yaml
from matplotlib.axes import Axes

from seq2seq.data.report import (
    Report,
    Table,
    mixture_table,
    overlap_table,
    percent,
    sides_table,
    time_table,
    vocabulary_table,
)
from seq2seq.html_page import render
from seq2seq.report.charts import INK, Chart, Line, draw_lines, line_chart, svg
from seq2seq.report.run import Run

FILES = 100  # that are listed
RARE = 10  # a token that occurs fewer times is rare

# What each filter drops; names behind $ are settings of the cleaning.
MEANINGS = {
    "empty": "a side holds no text",
    "damaged": "broken encoding, such as Ã© instead of é",
    "too_long": "more than $max_words words or $max_characters characters on a side",
    "length_ratio": "one side has more than $max_ratio times the characters of the other",
    "identical": "both sides are the same text: nothing was translated",
    "markup": "tags, entities or templates rather than plain text",
    "symbols": "mostly digits and symbols: the share of letters is below $min_letters",
    "wrong_language": "a side is not in its language",
    "quotation": "speech is marked on one side only",
    "leakage": "a side also stands in the validation or test text, which must stay unseen",
    "duplicate": "the same pair was there before",
}


def report_page(report: Report) -> str:
    """The page of a prepared corpus."""
    tables = [sides_table(report), vocabulary_table(report)]
    tables += [overlap_table(report)] if report.overlap else []
    tables += [mixture_table(report)] if len(report.mixture) > 1 else []
    return render(
        "data.html",
        title=f"{report.name}: prepared data",
        report=report,
        tiles=_tiles(report),
        dropped=list(_dropped(report)),
        charts=[length_chart(report), ratio_chart(report), rank_chart(report)],
        tables=tables,
        last_tables=[time_table(report), _files(report)],
        settings=yaml.safe_dump(report.settings, sort_keys=False, allow_unicode=True),
    )


def corpora(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """What the page of runs shows of each prepared corpus, whichever runs it was used by."""
    found: dict[str, tuple[Report, list[str]]] = {}
    for run in runs:
        if run.data:
            found.setdefault(run.data.fingerprint, (run.data, []))[1].append(run.name)
    return [
        {
            "report": report,
            "used_by": names,
            "share": percent(report.kept, report.read),
            "charts": [length_chart(report), ratio_chart(report)],
            "tables": [sides_table(report), vocabulary_table(report), *_lost(report)],
        }
        for report, names in found.values()
    ]


def _lost(report: Report) -> Iterator[Table]:
    rows = [[reason, f"{count:,}", percent(count, report.read)]
            for reason, count in report.dropped.items() if count]  # fmt: skip
    if rows:
        yield Table("Dropped", [["", "pairs", "of all read"], *rows])


def _tiles(report: Report) -> Iterator[tuple[str, str, str]]:
    lost, files = report.read - report.kept, len(report.files)
    yield "pairs read", f"{report.read:,}", f"from {files:,} file{'s' * (files != 1)}"
    for name, count in (("kept", report.kept), ("dropped", lost)):
        yield f"pairs {name}", f"{count:,}", f"{percent(count, report.read)} of those read"
    for side, tokens, words in zip(
        ("source", "target"), report.tokens, report.words, strict=True
    ):
        per_word = f"{tokens / words:.2f} per word" if words else ""
        yield f"{side} tokens", f"{tokens:,}", per_word


def _dropped(report: Report) -> Iterator[dict[str, Any]]:
    """Each filter: what it drops, how much that was, examples."""
    most = max(report.dropped.values(), default=0)
    cleaning = report.settings.get("cleaning", {})
    numbers = {name: f"{n:,g}" for name, n in cleaning.items() if isinstance(n, int | float)}
    for reason, count in report.dropped.items():
        yield {
            "name": reason,
            "meaning": Template(MEANINGS.get(reason, "")).safe_substitute(numbers),
            "count": count,
            "share": percent(count, report.read),
            "width": max(100 * count / max(most, 1), 0.5),
            "examples": report.examples.get(reason, []),
        }


def _files(report: Report) -> Table:
    several = len({each["member"] for each in report.files}) > 1
    rows = [
        [f"{each['member']}: {each['file']}" if several else each["file"], f"{each['pairs']:,}"]
        for each in report.files[:FILES]
    ]
    more = len(report.files) - FILES
    note = f"And {more:,} more, which report.json lists." if more > 0 else ""
    return Table("Files", [["", "pairs read"], *rows], note)


def length_chart(report: Report) -> Chart:
    """Histograms of tokens per sentence, up to what 99 % do not exceed."""
    end = max(report.length(side, 0.99) for side in (0, 1)) + 1
    sides = zip(("source", "target"), report.lengths, strict=True)
    lines = [
        Line(name, [*enumerate((counts + [0] * end)[:end]), (end, 0)], look, "stairs")
        for look, (name, counts) in enumerate(sides)
    ]
    note = "pairs by tokens of a side; the longest 1 % are left out"
    return line_chart("Sentence lengths", note, lines, x_name="tokens of a sentence", zero=True)


def ratio_chart(report: Report) -> Chart:
    """Histogram of target tokens per source token; bins of the report, from -2.05 by 0.1."""
    counts = [*enumerate(report.ratios), (len(report.ratios), 0)]
    bars = Line("pairs", [((i - 20.5) / 10, count) for i, count in counts], 2, "stairs")
    most = max(counts, key=lambda each: each[1])

    def draw(axes: Axes) -> None:
        draw_lines(axes, [bars], zero=True)
        axes.axvline(0, color=INK, linewidth=1.2, linestyle=":")
        axes.set_xticks([-2, -1, 0, 1, 2], ["¼ or less", "½", "1", "2", "4 or more"])
        axes.set_xlabel("target tokens for each source token")

    label = f"Length ratios: most pairs, {most[1]:,}, at {2 ** ((most[0] - 20) / 10):.2f}"
    note = "pairs by target tokens for each source token; the outer bars hold what is beyond"
    return Chart("Length ratios", note, svg(draw, label))


def rank_chart(report: Report) -> Chart:
    """Frequency of tokens by their rank."""
    lines = [
        Line(each["name"], seen, look)
        for look, each in enumerate(report.vocabulary)
        if (seen := [(rank, count) for rank, count in each["counts"] if count])
    ]
    title, note = "Token frequencies", (
        "how often each token occurs, from the most frequent (rank 1) to the rarest; those below "
        f"the dotted line occur fewer than {RARE} times"
    )  # fmt: skip

    def draw(axes: Axes) -> None:
        for line in lines:
            axes.plot(*zip(*line.points, strict=True), color=line.colour, linestyle=line.dash)
        axes.axhline(RARE, color=INK, linewidth=1.2, linestyle=":")
        axes.set(xscale="log", yscale="log", xlabel="rank of the token", ylabel="times it occurs")
        axes.set_ylim(0.7, 1.5 * max([RARE, *(y for line in lines for _, y in line.points)]))

    return Chart(title, note, svg(draw, f"{title}: {note}"), lines)
