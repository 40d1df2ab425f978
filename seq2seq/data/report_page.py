"""The report of a prepared corpus as one HTML page: no script, nothing fetched, light and dark."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator
from html import escape
from typing import Any

import matplotlib
import yaml
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullFormatter

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
from seq2seq.html_page import grid, html_page, number_table, shown, tiles, visible

FILES = 100  # that are listed

# What each filter drops; names in braces are settings of the cleaning.
MEANINGS = {
    "empty": "a side holds no text",
    "damaged": "broken encoding, such as Ã© instead of é",
    "too_long": "more than {max_words} words or {max_characters} characters on a side",
    "length_ratio": "one side has more than {max_ratio} times the characters of the other",
    "identical": "both sides are the same text: nothing was translated",
    "markup": "tags, entities or templates rather than plain text",
    "symbols": "mostly digits and symbols: the share of letters is below {min_letters}",
    "wrong_language": "a side is not in its language",
    "quotation": "speech is marked on one side only",
    "leakage": "a side also stands in the validation or test text, which must stay unseen",
    "duplicate": "the same pair was there before",
}

# matplotlib draws with these, and the page says what they are, in light and in dark.
INK, ACCENT, SOURCE, TARGET = "#010101", "#020202", "#030303", "#040404"
COLOURS = {
    INK: "currentColor",
    ACCENT: "var(--accent)",
    SOURCE: "var(--source)",
    TARGET: "var(--target)",
}
VOCABULARIES = {"joint": ACCENT, "source": SOURCE, "target": TARGET}
SIDES = (("source", SOURCE), ("target", TARGET))

STYLE = """
.reason { border-bottom: 1px solid var(--line); padding: .45rem 0; }
.reason summary, .reason > div { display: grid; gap: 0 1rem; align-items: baseline;
  grid-template-columns: 1rem 10rem 1fr 6rem 4.5rem; }
.reason summary { cursor: pointer; list-style: none; }
.reason summary::-webkit-details-marker { display: none; }
.reason summary::before { content: "▸"; color: var(--dim); }
.reason[open] summary::before { content: "▾"; }
.reason > div::before { content: ""; }
.reason.none { color: var(--dim); }
.reason b { font-weight: 600; overflow-wrap: anywhere; }
.reason.none b { font-weight: 400; }
.reason span { text-align: right; font-variant-numeric: tabular-nums; }
.reason em { font-style: normal; font-size: .88rem; color: var(--dim); }
.reason u { grid-column: 3; height: .35rem; border-radius: .2rem; background: var(--accent);
  margin-top: .2rem; }
.reason table { margin: .6rem 0 .4rem; }
@media (max-width: 40rem) {
  .reason summary, .reason > div { grid-template-columns: 1rem 1fr auto 4rem; }
  .reason em, .reason u { grid-column: 2 / -1; }
  .reason em { grid-row: 2; } }
"""


def report_page(report: Report) -> str:
    """The whole page."""
    name = escape(visible(report.name))
    head = f"<h1>{name}</h1>\n<p>Parallel text, cleaned and cut into tokens.</p>"
    return html_page(f"{report.name}: prepared data", [head, *_sections(report)], STYLE)


def _sections(report: Report) -> Iterator[str]:
    yield _tiles(report)
    yield _dropped(report)
    lengths = _figure(
        "Sentence lengths",
        "Pairs by the number of tokens of each side. The longest, at most 1%, are not drawn.",
        lambda axes: draw_lengths(axes, report),
    )
    ratios = _figure(
        "Length ratios",
        "Pairs by how many tokens the target has for each token of the source. "
        "The outer bars also hold what is beyond.",
        lambda axes: draw_ratios(axes, report),
    )
    ranks = _figure(
        "Token frequencies",
        "How often each token occurs, from the most frequent (rank 1) to the rarest. "
        "Those below the dotted line occur fewer than 10 times.",
        lambda axes: draw_ranks(axes, report),
    )
    yield grid(_table(sides_table(report)), lengths, ratios, ranks)
    yield grid(
        _table(vocabulary_table(report)),
        _table(overlap_table(report)) if report.overlap else "",
        _table(mixture_table(report)) if len(report.mixture) > 1 else "",
    )
    yield f"<h2>Kept pairs, drawn at random</h2>\n{_texts(report.samples)}"
    yield grid(_table(time_table(report)), _files(report))
    settings = yaml.safe_dump(report.settings, sort_keys=False, allow_unicode=True)
    yield (
        "<h2>Settings</h2>\n<p>The same files, settings and version give the same data, whose "
        f"fingerprint is <code>{escape(report.fingerprint)}</code>.</p>\n"
        f"<pre>{escape(settings)}</pre>"
    )


def _tiles(report: Report) -> str:
    lost, files = report.read - report.kept, len(report.files)
    per_word = [
        f"{tokens / words:.2f} per word" if words else ""
        for tokens, words in zip(report.tokens, report.words, strict=True)
    ]
    items = [
        ("pairs read", f"{report.read:,}", f"from {files:,} file{'s' * (files != 1)}"),
        ("pairs kept", f"{report.kept:,}", f"{percent(report.kept, report.read)} of those read"),
        ("pairs dropped", f"{lost:,}", f"{percent(lost, report.read)} of those read"),
        ("source tokens", f"{report.tokens[0]:,}", per_word[0]),
        ("target tokens", f"{report.tokens[1]:,}", per_word[1]),
    ]
    return tiles(items)


class _Named(dict[str, str]):
    """Settings by name; one that is not there stays a name."""

    def __missing__(self, name: str) -> str:
        return name


def _dropped(report: Report) -> str:
    most = max(report.dropped.values(), default=0)
    cleaning = report.settings.get("cleaning", {})
    numbers = {name: f"{n:,g}" for name, n in cleaning.items() if isinstance(n, int | float)}
    rows = [
        "<h2>Dropped pairs</h2>\n<p>Each pair is dropped by the first filter that it fails, in "
        "this order. Open a filter for examples. Bars compare the filters with each other.</p>"
    ]
    for reason, count in report.dropped.items():
        meaning = MEANINGS.get(reason, "").format_map(_Named(numbers))
        line = (
            f"<b>{escape(reason)}</b><em>{escape(meaning)}</em><span>{count:,}</span>"
            f"<span>{percent(count, report.read)}</span>"
        )
        if count:
            line += f'<u style="width:{max(100 * count / most, 0.5):.1f}%"></u>'
        examples = report.examples.get(reason, [])
        if examples:
            rows.append(
                f'<details class="reason"><summary>{line}</summary>{_texts(examples)}</details>'
            )
        else:
            rows.append(f'<div class="reason{"" if count else " none"}"><div>{line}</div></div>')
    return "\n".join(rows)


def _texts(pairs: list[list[str]]) -> str:
    rows = "".join(
        "<tr>" + "".join(f'<td dir="auto">{shown(text)}</td>' for text in pair) + "</tr>\n"
        for pair in pairs
    )
    head = '<tr><th scope="col">source</th><th scope="col">target</th></tr>'
    return f'<table class="texts"><thead>{head}</thead><tbody>\n{rows}</tbody></table>'


def _table(table: Table) -> str:
    return number_table(table.title, table.rows, table.note)


def _files(report: Report) -> str:
    several = len({each["member"] for each in report.files}) > 1
    rows = [
        [f"{each['member']}: {each['file']}" if several else each["file"], f"{each['pairs']:,}"]
        for each in report.files[:FILES]
    ]
    more = len(report.files) - FILES
    note = f"And {more:,} more, which report.json lists." if more > 0 else ""
    return _table(Table("Files", [["", "pairs read"], *rows], note))


RC: Any = {
    "svg.fonttype": "none",  # text stays text, in the font of the page
    "svg.hashsalt": "report",  # else ids would change each time
    "font.size": 10.5,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "text.color": INK,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
}


def _figure(title: str, caption: str, draw: Callable[[Axes], None]) -> str:
    """A plot and what it says, with ids that no other plot of the page has."""
    file = io.StringIO()
    with matplotlib.rc_context(RC):
        figure = Figure(figsize=(5.6, 3.1), layout="constrained")
        draw(figure.add_subplot())
        figure.savefig(file, format="svg", transparent=True, metadata={"Date": None})
    svg = file.getvalue()
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg[svg.index("<svg") :], flags=re.DOTALL)
    svg = re.sub(r'(\bid="|url\(#|href="#)', rf"\1{title.split()[-1]}-", svg)
    for marker, colour in COLOURS.items():
        svg = svg.replace(marker, colour)
    svg = svg.replace("<svg", f'<svg role="img" aria-label="{escape(caption)}"', 1)
    return (
        f"<section><h2>{title}</h2><figure><figcaption>{escape(caption)}</figcaption>{svg}"
        "</figure></section>\n"
    )


_counts = FuncFormatter(lambda value, _: f"{value:,.0f}")


def _count_axis(axes: Axes, most: int) -> None:
    axes.set_ylim(0, max(1, 1.05 * most))
    axes.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10], integer=True))
    axes.yaxis.set_major_formatter(_counts)
    axes.set_ylabel("pairs")


def draw_lengths(axes: Axes, report: Report) -> None:
    """Histograms of tokens per sentence, up to what 99% do not exceed."""
    end = max(report.length(side, 0.99) for side in (0, 1)) + 1
    drawn = [(counts + [0] * end)[:end] for counts in report.lengths]
    for (name, colour), counts in zip(SIDES, drawn, strict=True):
        # Only one is filled: they can be told apart without colours.
        axes.stairs(counts, color=colour, linewidth=1.4, label=name)
        if name == "source":
            axes.stairs(counts, color=colour, alpha=0.18, fill=True)
    axes.set_xlim(0, end)
    axes.xaxis.set_major_locator(MaxNLocator(10, steps=[1, 2, 5, 10], integer=True))
    axes.set_xlabel("tokens of a sentence")
    axes.legend(frameon=False)
    _count_axis(axes, max(map(max, drawn)))


def draw_ratios(axes: Axes, report: Report) -> None:
    """Histogram of target tokens per source token, on a logarithmic axis."""
    axes.bar([(i - 20) / 10 for i in range(41)], report.ratios, 0.09, color=ACCENT)
    axes.axvline(0, color=INK, linewidth=1.2, linestyle=":")
    axes.set_xticks([-2, -1, 0, 1, 2], ["¼ or less", "½", "1", "2", "4 or more"])
    axes.set_xlabel("target tokens for each source token")
    _count_axis(axes, max(report.ratios))


def draw_ranks(axes: Axes, report: Report) -> None:
    """Frequency of tokens by their rank."""
    for each in report.vocabulary:
        seen = [(rank, count) for rank, count in each["counts"] if count]
        axes.plot(
            [rank for rank, _ in seen],
            [count for _, count in seen],
            "--" if each["name"] == "target" else "-",
            color=VOCABULARIES.get(each["name"], ACCENT),
            label=each["name"],
        )
    axes.set(xscale="log", yscale="log", xlabel="rank of the token", ylabel="times it occurs")
    most = max((count for each in report.vocabulary for _, count in each["counts"]), default=0)
    axes.set_ylim(0.7, 1.5 * max(most, 10))
    axes.axhline(10, color=INK, linewidth=1.2, linestyle=":")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(_counts)
        axis.set_minor_formatter(NullFormatter())
    if len(report.vocabulary) > 1:
        axes.legend(frameon=False)
