"""The report of a prepared corpus: in words, as a page with charts, and for the report of runs."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from matplotlib.axes import Axes

from seq2seq.data.cleaning import FILTERS
from seq2seq.data.report import RARE, Report, read_report
from seq2seq.files import replace_text
from seq2seq.html_page import render
from seq2seq.report.charts import INK, Chart, Line, draw_lines, line_chart, svg
from seq2seq.report.run import Run
from seq2seq.text import markdown_table

FILES = 100  # files that a page lists
MEANINGS = {  # what each filter drops
    **{name: " ".join((inspect.getdoc(drops) or "").partition("\n\n")[0].split())
       for name, drops in FILTERS.items()},
    "duplicate": "An earlier pair is the same.",
    "near_duplicate": "An earlier pair has nearly the same letters and digits.",
}  # fmt: skip


@dataclass(frozen=True)
class Table:
    """A table of formatted numbers, for the terminal or a page."""

    title: str
    rows: list[list[str]]  # the first holds the names of the columns
    note: str = ""


def percent(part: float, whole: float) -> str:
    """Format a share as a percentage; "-" if the whole is 0."""
    if not whole:
        return "-"
    return "<0.01%" if 0 < part / whole < 0.00005 else f"{part / whole:.2%}"


def duration(seconds: float) -> str:
    """Format seconds as s, min or h."""
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02} s"
    return f"{minutes // 60:,} h {minutes % 60:02} min"


def kept_table(report: Report) -> Table:
    """Make the table of the kept text: its words, characters, tokens and sentence lengths."""
    rows = [["", "source", "target"]]
    for name in ("words", "characters", "tokens"):
        rows.append([name, *(f"{n:,}" for n in getattr(report, name))])
    for above, below in (("tokens", "words"), ("characters", "tokens")):
        pairs = zip(getattr(report, above), getattr(report, below), strict=True)
        quotients = (f"{a / b:.2f}" if b else "-" for a, b in pairs)
        rows.append([f"{above} per {below.removesuffix('s')}", *quotients])
    for name, share in (("median", 0.5), ("95% up to", 0.95), ("longest", 1.0)):
        row = [f"sentence length: {name}"]
        for side, histogram in enumerate(report.lengths):
            length = report.length(side, share)
            or_more = length == len(histogram) - 1 > 0  # the last bin also holds what is longer
            row.append(f"{length:,}{'+' * or_more}")
        rows.append(row)
    note = 'Spaces separate words; tokens are subwords. Lengths are in tokens; + means "or more".'
    return Table("Kept text", rows, note)


def vocabulary_table(report: Report) -> Table:
    rows = [["", "tokens", "used", "share", "rare", "share"]]
    for each in report.vocabulary:
        used, rare = (_counted(each[name], each["size"]) for name in ("used", "rare"))
        rows.append([each["name"], f"{each['size']:,}", *used, *rare])
    note = (
        "Used tokens occur in the kept text. Rare ones occur in it fewer than "
        f"{RARE} times, or never: a model learns little about them. If many are rare, choose a "
        "smaller vocabulary."
    )
    return Table("Vocabulary", rows, note)


def dropped_table(report: Report) -> Table:
    counts = [*report.dropped.items(), ("all", report.read - report.kept)]
    rows = [[reason, *_counted(count, report.read)] for reason, count in counts]
    return Table("Dropped", [["", "pairs", "of all read"], *rows])


def _counted(part: int, whole: int) -> list[str]:
    """Format a number, and its share of the whole."""
    return [f"{part:,}", percent(part, whole)]


def figures(report: Report) -> Iterator[Table]:
    """Yield all tables of counts, except that of the filters; times are not among them."""
    yield kept_table(report)
    yield vocabulary_table(report)
    if report.overlap:
        rows = [
            [each["split"], f"{each['pairs']:,}", *_counted(each["in_training"], each["pairs"])]
            for each in report.overlap
        ]
        gone = "The leakage filter dropped those training pairs."
        note = (
            "Pairs with a side, or with cleaning.leakage_ngram words in a row, that was in the "
            f"training text. {gone if 'leakage' in report.dropped else 'Nothing was dropped.'}"
        )
        head = ["", "pairs", "found", "share"]
        yield Table("Evaluation text found in training", [head, *rows], note)
    if len(report.mixture) > 1:
        rows = [
            [each["member"], f"{each['pairs']:,}", f"{each['weight']:.3g}",
             percent(each["share"], 1)]
            for each in report.mixture
        ]  # fmt: skip
        note = "The weight says how often each pair is seen in an epoch."
        yield Table("Mixture", [["", "pairs", "weight", "share of an epoch"], *rows], note)


def time_table(report: Report) -> Table:
    times = {**report.seconds, "all": sum(report.seconds.values())}
    rows = [[name, duration(seconds)] for name, seconds in times.items()]
    note = f"{report.pairs_per_second:,.0f} pairs read per second."
    return Table("Time", [["", "wall time"], *rows], note)


def in_words(report: Report) -> str:
    """Format the report as Markdown that also reads well on a terminal."""
    lines = [
        f"# {report.name}: {report.read:,} pairs read, {report.kept:,} kept "
        f"({percent(report.kept, report.read)})"
    ]
    for table in (dropped_table(report), *figures(report), time_table(report)):
        lines += ["", f"## {table.title}", "", *markdown_table(table.rows)]
        lines += ["", table.note] if table.note else []
    return "\n".join([*lines, "", f"fingerprint {report.fingerprint}"])


def write_page(folder: Path) -> Path:
    """Return the path of a corpus's page; make the page if `report.json` has none beside it.

    Raises:
        OSError: the report cannot be read, or the page cannot be written.
    """
    page = folder / "report.html"
    if not page.exists():
        replace_text(page, report_page(read_report(folder)))
    return page


def report_page(report: Report) -> str:
    """Make the page of a prepared corpus."""
    head = ["", "pairs read", "dropped by filters"]
    several = len({each["member"] for each in report.files}) > 1
    files = [
        [f"{each['member']}: {each['file']}" if several else each["file"], f"{each['pairs']:,}",
         ", ".join(f"{why} {count:,}" for why, count in each.get("dropped", {}).items())]
        for each in report.files[:FILES]
    ]  # fmt: skip
    more = len(report.files) - FILES
    note = "Duplicates are not counted here: they are found in all files together."
    note += f" And {more:,} more, which report.json lists." if more > 0 else ""
    return render(
        "data.html",
        title=f"{report.name}: prepared data",
        report=report,
        charts=[length_chart(report), ratio_chart(report)],
        percent=percent,
        meanings=MEANINGS,
        tables=list(figures(report)),
        last_tables=[time_table(report), Table("Files", [head, *files], note)],
        settings=yaml.safe_dump(report.settings, sort_keys=False, allow_unicode=True),
    )


def corpora(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Return what the page of runs shows of each prepared corpus, and which runs used it."""
    reports = {run.data.fingerprint: run.data for run in runs if run.data}
    return [
        {
            "report": report,
            "used_by": [run.name for run in runs if run.data and run.data.fingerprint == own],
            "charts": [length_chart(report), ratio_chart(report)],
            "tables": [kept_table(report), vocabulary_table(report), dropped_table(report)],
        }
        for own, report in reports.items()
    ]


def length_chart(report: Report) -> Chart:
    """Draw histograms of tokens per sentence, up to the length that 99 % do not exceed."""
    end = max(report.length(side, 0.99) for side in (0, 1)) + 1
    sides = zip(("source", "target"), report.lengths, strict=True)
    lines = [
        Line(name, [*enumerate((counts + [0] * end)[:end]), (end, 0)], look, "stairs")
        for look, (name, counts) in enumerate(sides)
    ]
    note = "pairs by tokens of a side; the longest 1 % are left out"
    return line_chart("Sentence lengths", note, lines, x_name="tokens of a sentence", zero=True)


def ratio_chart(report: Report) -> Chart:
    """Draw the histogram of log2(target tokens / source tokens): bins of 0.1, from -2.05 on."""
    counts = [*enumerate(report.ratios), (len(report.ratios), 0)]
    bars = Line("pairs", [((i - 20.5) / 10, count) for i, count in counts], 2, "stairs")
    bin_of_most, most = max(counts, key=lambda each: each[1])

    def draw(axes: Axes) -> None:
        draw_lines(axes, [bars], zero=True)
        axes.axvline(0, color=INK, linewidth=1.2, linestyle=":")
        axes.set_xticks([-2, -1, 0, 1, 2], ["≤ ¼", "½", "1", "2", "≥ 4"])
        axes.set_xlabel("target tokens for each source token")

    label = f"Length ratios: most pairs, {most:,}, at {2 ** ((bin_of_most - 20) / 10):.2f}"
    note = "pairs by target tokens for each source token; the outer bars hold what is beyond"
    return Chart("Length ratios", note, svg(draw, label))
