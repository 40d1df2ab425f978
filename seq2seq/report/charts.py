"""Charts for pages, drawn by matplotlib: curves and histograms as SVG that scales and prints.

The colours of a drawing are variables of `page.css`, which have other values on a dark page.
"""

from __future__ import annotations

import io
import logging
import math
import re
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib
from markupsafe import Markup, escape
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, LogLocator, MaxNLocator, NullFormatter

from seq2seq.html_page import visible

# Based on the colours of Okabe and Ito, which colour-blind readers can tell apart; darkened for
# white paper.
COLOURS = ("#0072b2", "#c65600", "#00785a", "#a0447e", "#6b5b00", "#1d2329")
DASHES = ("solid", (0, (5, 2)), (0, (1.5, 1.5)), (0, (6, 2, 1.5, 2)))  # 12 looks, all different
INK, DIM, GRID = COLOURS[5], "#5b6570", "#dde1e6"
VARIABLES = {c: f"--c{look}" for look, c in enumerate(COLOURS)} | {DIM: "--dim", GRID: "--line"}
SIZE = (5.2, 2.7)  # inches
# Place of the axes in a drawing: left, bottom, width, height. Numbers and a name fit below.
BOX = (0.14, 0.17, 0.84, 0.79)
STYLE: Any = {
    "svg.fonttype": "none",  # text stays text, in the font of the page
    "svg.hashsalt": "report",  # without it, ids would change each time
    "font.size": 10.5,
    "axes.linewidth": 0.7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": DIM,
    "axes.labelcolor": DIM,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "grid.color": GRID,
    "xtick.color": DIM,
    "ytick.color": DIM,
    "ytick.major.size": 0,
    "text.color": INK,
}
NO_METADATA = dict.fromkeys(("Creator", "Date", "Format", "Type"))

logging.getLogger("matplotlib").setLevel(logging.WARNING)  # no messages about fonts

Points = Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Line:
    """One line of a chart, with its name in the legend.

    Attributes:
        points: (x, y), finite, in the order of x; at least one.
        look: index of its colour and dashes.
        kind: line, faint (for many noisy points), dots (for few points, joined by a line), or
            stairs (for a histogram: each y holds from its x to the next x).
    """

    name: str
    points: Points
    look: int = 0
    kind: str = "line"

    @property
    def colour(self) -> str:
        return COLOURS[self.look % len(COLOURS)]

    @property
    def dash(self) -> Any:
        return DASHES[self.look % len(DASHES)]

    @property
    def variable(self) -> str:
        """The variable of `page.css` that holds its colour."""
        return VARIABLES[self.colour]

    @property
    def last(self) -> str:
        """The last value, as text; empty for a histogram, whose last value says nothing."""
        return "" if self.kind == "stairs" else number(self.points[-1][1])

    @property
    def spoken(self) -> str:
        """A description of the line for readers who cannot see it."""
        if self.kind == "stairs":
            at, most = max(self.points, key=lambda point: point[1])
            return f"{self.name}: most, {number(most)}, at {number(at)}"
        ends = (f"{number(y)} at {number(x)}" for x, y in (self.points[0], self.points[-1]))
        return f"{self.name}: {', '.join(ends)}"


@dataclass(frozen=True)
class Chart:
    """A drawing with its title, a note on how to read it, and the lines of its legend."""

    title: str
    note: str
    svg: Markup
    lines: Sequence[Line] = ()


def line_chart(
    title: str,
    note: str,
    lines: Sequence[Line],
    *,
    x_name: str = "step",
    log: bool = False,
    zero: bool = False,
) -> Chart:
    """Draw a chart of one line or more.

    Args:
        title, note: what is drawn, and how to read it.
        x_name: what x counts.
        log: make the y axis logarithmic, and say so in the note, if all values are positive.
        zero: begin the y axis at 0.
    """
    log = log and min(y for line in lines for _, y in line.points) > 0
    spoken = f"{title}, by {x_name}. " + "; ".join(line.spoken for line in lines)
    note = "; ".join(filter(None, (note, "logarithmic" * log)))

    def draw(axes: Axes) -> None:
        draw_lines(axes, lines, log=log, zero=zero)
        axes.set_xlabel(x_name)

    return Chart(title, note, svg(draw, spoken), lines)


def draw_lines(axes: Axes, lines: Sequence[Line], *, log: bool = False, zero: bool = False) -> None:
    """Draw lines, and set up the axes: the y axis is only negative if a value is."""
    for line in lines:
        xs, ys = zip(*line.points, strict=True)
        look: dict[str, Any] = {"color": line.colour, "linestyle": line.dash}
        if line.kind == "stairs":
            axes.stairs(ys[:-1], xs, linewidth=1.5, **look)
            axes.stairs(ys[:-1], xs, fill=True, alpha=0.12, color=line.colour)
            continue
        width, alpha = (1.0, 0.6) if line.kind == "faint" else (1.6, 1.0)
        dots = "o" if line.kind == "dots" or len(xs) == 1 else None
        axes.plot(xs, ys, marker=dots, markersize=3.5, linewidth=width, alpha=alpha, **look)
    if log:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_minor_formatter(NullFormatter())
    else:
        values = [y for line in lines for _, y in line.points]
        axes.yaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 2.5, 5, 10], min_n_ticks=4))
        if zero or max(values) == 0:
            axes.set_ylim(0, 1.05 * max(values) or 1)
        elif min(values) >= 0:
            axes.set_ylim(bottom=max(0, axes.get_ylim()[0]))
    axes.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(short)


def svg(draw: Callable[[Axes], None], label: str) -> Markup:
    """Make an SVG element with ids that no other drawing of the page has.

    `label` describes the drawing to readers who cannot see it.
    """
    file = io.StringIO()
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=SIZE)
        draw(figure.add_axes(BOX))
        figure.savefig(file, format="svg", transparent=True, metadata=NO_METADATA)
    text = file.getvalue()
    text = text[text.index("<svg") :]
    for colour, variable in VARIABLES.items():
        text = text.replace(f": {colour}", f": var({variable})")
    own = zlib.crc32(text.encode())
    text = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>c{own:x}-", text)
    head = f'<svg role="img" aria-label="{escape(visible(label))}"'
    return Markup(text.replace("<svg", head, 1))


def thinned(points: Points, most: int) -> Points:
    """Thin a curve to `most` points: keep the lowest and highest of each stretch, and so peaks."""
    if len(points) <= most:
        return points
    size = math.ceil(len(points) / max(1, most // 2 - 1))
    inner = points[1:-1]
    kept = [points[0]]
    for start in range(0, len(inner), size):
        part = inner[start : start + size]
        kept += sorted({min(part, key=lambda p: p[1]), max(part, key=lambda p: p[1])})
    return [*kept, points[-1]]


_thousands = EngFormatter(sep="")


def short(value: float, _: object = None) -> str:
    """Format a number for an axis."""
    if abs(value) >= 1e4:
        return str(_thousands(value))
    return f"{round(value, 9):,g}" if value == 0 or abs(value) >= 1e-3 else f"{value:.3g}"


def number(value: float) -> str:
    """Format a number for text, in a form that can be read out."""
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.4g}" if abs(value) >= 1e-3 else f"{value:.2e}"
