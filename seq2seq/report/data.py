"""What preparing a corpus did: in words, as a page with plots, and in the report of runs."""

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

FILES = 100  # that are listed
MEANINGS = {  # what each filter drops
    **{name: " ".join((inspect.getdoc(drops) or "").partition("\n\n")[0].split())
       for name, drops in FILTERS.items()},
    "duplicate": "The same pair was there before.",
    "near_duplicate": "A pair was there before that has nearly the same letters and digits.",
}  # fmt: skip


@dataclass(frozen=True)
class Table:
    """Numbers as they are shown, on the terminal as on a page."""

    title: str
    rows: list[list[str]]  # the first holds the names of the columns
    note: str = ""


def percent(part: float, whole: float) -> str:
    if not whole:
        return "-"
    return "<0.01%" if 0 < part / whole < 0.00005 else f"{part / whole:.2%}"


def duration(seconds: float) -> str:
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02} s"
    return f"{minutes // 60:,} h {minutes % 60:02} min"


def sides_table(report: Report) -> Table:
    """How much text was kept, and how it was cut into tokens."""

    def quotient(name: str, above: list[int], below: list[int]) -> list[str]:
        pairs = zip(above, below, strict=True)
        return [name, *(f"{a / b:.2f}" if b else "-" for a, b in pairs)]

    def length(name: str, share: float) -> list[str]:
        found = [report.length(side, share) for side in (0, 1)]
        ends = [len(histogram) - 1 for histogram in report.lengths]
        # The last bin of a histogram also holds what is longer.
        return [name, *(f"{n:,}{'+' * (n == end > 0)}" for n, end in zip(found, ends, strict=True))]

    rows = [
        ["", "source", "target"],
        ["words", *(f"{n:,}" for n in report.words)],
        ["characters", *(f"{n:,}" for n in report.characters)],
        ["tokens", *(f"{n:,}" for n in report.tokens)],
        quotient("tokens per word", report.tokens, report.words),
        quotient("characters per token", report.characters, report.tokens),
        length("sentence length: median", 0.5),
        length("sentence length: 95% up to", 0.95),
        length("sentence length: longest", 1.0),
    ]
    note = (
        "Words stand between spaces, tokens are subwords. Lengths are in tokens; + means: or more."
    )
    return Table("Kept text", rows, note)


def _counted(part: int, whole: int) -> list[str]:
    """A number, and its share of another."""
    return [f"{part:,}", percent(part, whole)]


def vocabulary_table(report: Report) -> Table:
    rows = [
        [each["name"], f"{each['size']:,}", *_counted(each["used"], each["size"]),
         *_counted(each["rare"], each["size"])]
        for each in report.vocabulary
    ]  # fmt: skip
    note = (
        "Used tokens occur in the kept text. Rare ones occur in it fewer than "
        f"{RARE} times, or never: a model learns little about them. Where many are rare, take a "
        "smaller vocabulary."
    )
    return Table("Vocabulary", [["", "tokens", "used", "share", "rare", "share"], *rows], note)


def overlap_table(report: Report) -> Table:
    rows = [
        [each["split"], f"{each['pairs']:,}", *_counted(each["in_training"], each["pairs"])]
        for each in report.overlap
    ]
    note = (
        "Pairs with a side that stood in the training text. The leakage filter dropped those "
        "training pairs."
    )
    return Table(
        "Evaluation text found in training", [["", "pairs", "found", "share"], *rows], note
    )


def mixture_table(report: Report) -> Table:
    rows = [
        [each["member"], f"{each['pairs']:,}", f"{each['weight']:.3g}", percent(each["share"], 1)]
        for each in report.mixture
    ]
    note = "The weight says how often each pair is seen in an epoch."
    return Table("Mixture", [["", "pairs", "weight", "share of an epoch"], *rows], note)


def time_table(report: Report) -> Table:
    rows = [[name, duration(time)] for name, time in report.seconds.items()]
    total = ["all", duration(sum(report.seconds.values()))]
    note = f"{report.pairs_per_second:,.0f} pairs read per second."
    return Table("Time", [["", "wall time"], *rows, total], note)


def figures(report: Report) -> Iterator[Table]:
    """All that is counted, but for what each filter dropped and for times."""
    yield sides_table(report)
    yield vocabulary_table(report)
    if report.overlap:
        yield overlap_table(report)
    if len(report.mixture) > 1:
        yield mixture_table(report)


def dropped_table(report: Report) -> Table:
    lost = report.read - report.kept
    counts = [*report.dropped.items(), ("all", lost)]
    rows = [[reason, f"{count:,}", percent(count, report.read)] for reason, count in counts]
    return Table("Dropped", [["", "pairs", "of all read"], *rows])


def in_words(report: Report) -> str:
    """The report as Markdown that also reads well on a terminal."""
    lines = [
        f"# {report.name}: {report.read:,} pairs read, {report.kept:,} kept "
        f"({percent(report.kept, report.read)})"
    ]
    for table in (dropped_table(report), *figures(report), time_table(report)):
        lines += ["", f"## {table.title}", "", *markdown_table(table.rows)]
        lines += ["", table.note] if table.note else []
    return "\n".join([*lines, "", f"fingerprint {report.fingerprint}"])


def write_page(folder: Path) -> Path:
    """The page of a prepared corpus, drawn if it is not yet beside its `report.json`.

    Raises:
        OSError: it cannot be read or written.
    """
    page = folder / "report.html"
    if not page.exists():
        replace_text(page, report_page(read_report(folder)))
    return page


def report_page(report: Report) -> str:
    """The page of a prepared corpus."""
    return render(
        "data.html",
        title=f"{report.name}: prepared data",
        **_shown(report),
        percent=percent,
        meanings=MEANINGS,
        tables=list(figures(report)),
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
            **_shown(report),
            "used_by": names,
            "tables": [sides_table(report), vocabulary_table(report), dropped_table(report)],
        }
        for report, names in found.values()
    ]


def _shown(report: Report) -> dict[str, Any]:
    """What both pages have of a corpus."""
    return {
        "report": report,
        "share": percent(report.kept, report.read),
        "charts": [length_chart(report), ratio_chart(report)],
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
        axes.set_xticks([-2, -1, 0, 1, 2], ["≤ ¼", "½", "1", "2", "≥ 4"])
        axes.set_xlabel("target tokens for each source token")

    label = f"Length ratios: most pairs, {most[1]:,}, at {2 ** ((most[0] - 20) / 10):.2f}"
    note = "pairs by target tokens for each source token; the outer bars hold what is beyond"
    return Chart("Length ratios", note, svg(draw, label))
