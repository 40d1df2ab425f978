"""Charts as SVG in the colours of the page, with a legend that page.js fills on hover.

The drawing is whole without a script. A legend holds the last value of each line.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from seq2seq.html_page import data_block, visible

WIDTH, HEIGHT = 380, 210  # of the drawing; the page scales it
LEFT, RIGHT, TOP, BOTTOM = 46, 10, 8, 24  # margins
COLOURS, DASHES = 6, ("", "7 3", "2 2.5", "9 3 2 3")  # of page.css; no two runs of 12 look alike

Points = Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Line:
    """One line of a chart.

    Attributes:
        name: in the legend.
        points: (x, y), finite, by rising x.
        look: number of its colour and dashes.
        kind: line, faint (of many noisy points), dots (a few points, joined), or stairs (of a
            histogram: each y from its x to the next).
    """

    name: str
    points: Points
    look: int = 0
    kind: str = "line"


@dataclass(frozen=True)
class Scale:
    """From values to places.

    Attributes:
        low, high: values at the two ends.
        start, end: places of them.
        log: whether equal quotients are equal distances.
    """

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        low, high = self.low, self.high
        if self.log:
            low, high, value = math.log(low), math.log(high), math.log(value)
        return self.start + (value - low) / (high - low) * (self.end - self.start)


def chart(
    title: str,
    note: str,
    lines: Sequence[Line],
    *,
    x_name: str = "step",
    log: bool = False,
    zero: bool = False,
) -> str:
    """A figure with a title, a chart and a legend.

    Args:
        title, note: what is drawn, and how to read it.
        lines: at least one, none of them empty.
        x_name: what x counts.
        log: logarithmic y, which the note then says, if all values are positive.
        zero: y begins at 0.
    """
    xs = [x for line in lines for x, _ in line.points]
    ys = [y for line in lines for _, y in line.points]
    log = log and min(ys) > 0
    note = "; ".join([note] * bool(note) + ["logarithmic"] * log)
    x = Scale(*_range(0 if x_name == "step" else min(xs), max(xs)), LEFT, WIDTH - RIGHT)
    y = Scale(*_range(0 if zero else min(ys), max(ys), log, pad=0.04), HEIGHT - BOTTOM, TOP, log)
    if zero:
        y = Scale(0, y.high, y.start, y.end)
    label = f"{title}, by {x_name}. " + "; ".join(map(_spoken, lines))
    drawn = "".join([*_axes(x, y), *(_drawn(line, x, y) for line in lines)])
    data = {
        "x": [x.low, x.high, x.start, x.end],
        "lines": [[[_rounded(a) for a, _ in p], [_rounded(b) for _, b in p]]
                  for p in (line.points for line in lines)],
    }  # fmt: skip
    return (
        f'<figure class="chart"><figcaption><b>{escape(title)}</b> {escape(note)}</figcaption>'
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" tabindex="0" '
        f'aria-label="{escape(visible(label))}">{drawn}'
        f'<line class="at" y1="{TOP}" y2="{HEIGHT - BOTTOM}" hidden></line></svg>'
        f"{_legend(lines, x_name)}{data_block(data)}</figure>\n"
    )


def _range(low: float, high: float, log: bool = False, pad: float = 0.0) -> tuple[float, float]:
    """A range that is no single point, a little wider than what it holds."""
    if log:
        edge = max((high / low) ** pad, 1.05)
        return low / edge, high * edge
    edge = pad * (high - low) if high > low else abs(high) / 10 or 1.0
    return low - edge, high + edge


def _axes(x: Scale, y: Scale) -> list[str]:
    parts = []
    for value in ticks(y.low, y.high, y.log):
        at = y(value)
        parts.append(
            f'<path class="grid-line" d="M{LEFT} {at:.1f}H{WIDTH - RIGHT}"/>'
            f'<text x="{LEFT - 6}" y="{at + 4:.1f}" text-anchor="end">{short(value)}</text>'
        )
    for value in ticks(x.low, x.high, False):
        at = x(value)
        edge = "end" if at > WIDTH - 20 else "middle"
        parts.append(
            f'<text x="{at:.1f}" y="{HEIGHT - 7}" text-anchor="{edge}">{short(value)}</text>'
        )
    parts.append(f'<path class="axis" d="M{LEFT} {HEIGHT - BOTTOM}H{WIDTH - RIGHT}"/>')
    return parts


def _drawn(line: Line, x: Scale, y: Scale) -> str:
    places = [(x(a), y(b)) for a, b in line.points]
    if line.kind == "stairs":
        steps = [f"H{a:.1f}V{b:.1f}" for a, b in places[1:]]
        path = f"M{places[0][0]:.1f} {y.start:.1f}V{places[0][1]:.1f}{''.join(steps)}V{y.start:.1f}"
    else:
        path = "M" + "L".join(f"{a:.1f} {b:.1f}" for a, b in places)
    dash = DASHES[line.look % len(DASHES)]
    dashed = f' stroke-dasharray="{dash}"' if dash else ""
    drawn = f'<path class="line {line.kind} c{line.look % COLOURS}" d="{path}"{dashed}/>'
    if line.kind == "dots" or len(places) == 1:
        drawn += "".join(
            f'<circle class="c{line.look % COLOURS}" cx="{a:.1f}" cy="{b:.1f}" r="2.6"/>'
            for a, b in places
        )
    return drawn


def _legend(lines: Sequence[Line], x_name: str) -> str:
    """What stands at one x, the last one unless a reader points at another."""
    last = number(max(line.points[-1][0] for line in lines))
    values = [number(line.points[-1][1]) for line in lines]
    if any(line.kind == "stairs" for line in lines):  # whose ends say nothing
        last, values = "", [""] * len(lines)
    keys = "".join(
        f"<span>{swatch(line)}{escape(visible(line.name))} <b>{value}</b></span>"
        for line, value in zip(lines, values, strict=True)
    )
    return f'<div class="keys"><span>{escape(x_name)} <b>{last}</b></span>{keys}</div>'


def swatch(line: Line) -> str:
    """A short piece of a line, for legends."""
    kind = "line" if line.kind == "stairs" else line.kind
    flat = Line("", ((0, 0), (1, 0)), line.look, kind)
    drawn = _drawn(flat, Scale(0, 1, 3, 21), Scale(0, 1, 5, 4))
    return f'<svg class="swatch" viewBox="0 0 24 10" aria-hidden="true">{drawn}</svg>'


def _spoken(line: Line) -> str:
    (first_x, first), (last_x, last) = line.points[0], line.points[-1]
    if line.kind == "stairs":
        top_x, top = max(line.points, key=lambda point: point[1])
        return f"{line.name}: most, {number(top)}, at {number(top_x)}"
    return f"{line.name}: {number(first)} at {number(first_x)}, {number(last)} at {number(last_x)}"


def thinned(points: Points, most: int) -> Points:
    """At most so many points: of each stretch the lowest and the highest, so that peaks stay."""
    if len(points) <= most:
        return points
    size = math.ceil(len(points) / max(1, most // 2 - 1))
    inner = points[1:-1]
    kept = [points[0]]
    for start in range(0, len(inner), size):
        part = inner[start : start + size]
        extremes = {min(part, key=lambda p: p[1]), max(part, key=lambda p: p[1])}
        kept += sorted(extremes)
    return [*kept, points[-1]]


def ticks(low: float, high: float, log: bool = False) -> list[float]:
    """About five round values from `low` to `high`."""
    if log:
        powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        for multiples in ((1,), (1, 3), (1, 2, 5)):
            found = [m * 10.0**power for power in powers for m in multiples]
            found = [value for value in found if low <= value <= high]
            if len(found) >= 3:
                return found[:: math.ceil(len(found) / 6)]
    rough = (high - low) / (6 if log else 4)  # at 6 there are never fewer than three
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= rough * 0.999)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [i * step for i in range(first, last + 1)]


def short(value: float) -> str:
    """A number for an axis."""
    if abs(value) >= 1e6:
        return f"{value / 1e6:.4g}M"
    if abs(value) >= 1e4:
        return f"{value / 1e3:.4g}k"
    if value and abs(value) < 1e-3:
        mantissa, exponent = f"{value:.3e}".split("e")
        return f"{float(mantissa):g}e{int(exponent)}"
    return f"{round(value, 9):,g}"


def number(value: float) -> str:
    """A number as it is read out; page.js writes numbers the same way."""
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.4g}" if abs(value) >= 1e-3 else f"{value:.2e}".replace("e-0", "e-")


def _rounded(value: float) -> float:
    """Five digits are more than anyone reads off a chart."""
    found = float(f"{value:.5g}") if abs(value) < 1e5 else round(value)
    return int(found) if found == int(found) else found
