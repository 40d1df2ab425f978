"""Charts show their values where they are, and say them to those who do not see them."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.figure import Figure

from seq2seq.html_page import TEMPLATES
from seq2seq.report.charts import Line, draw_lines, line_chart, number, short, thinned


def drawn(*lines: Line, **how: bool):
    axes = Figure().add_subplot()
    draw_lines(axes, lines, **how)
    return axes


def test_lines_have_their_points():
    points = [(10, 2.0), (20, 6.0), (40, 4.0)]
    [line] = drawn(Line("a", points)).lines
    assert line.get_xydata().tolist() == [list(point) for point in points]


@pytest.mark.parametrize(
    ("values", "zero", "expected"),
    [((0, 0), False, (0, 1)), ((0.0, 0.01), False, (0, None)), ((3, 3), True, (0, None)),
     ((1e-4, 1), False, (0, None)), ((-1, 1), False, (None, None)),
     ((100, 101), False, (None, None))],
)  # fmt: skip
def test_axes_hold_all_values_and_do_not_reach_below_what_can_be(values, zero, expected):
    bottom, top = drawn(Line("a", [*enumerate(values)]), zero=zero).get_ylim()
    assert bottom <= min(values)
    assert max(values) <= top
    assert top - bottom <= 1.2 * max(max(values) - min(values), abs(max(values)), 0.9)
    for found, wanted in zip((bottom, top), expected, strict=True):
        assert wanted is None or found == wanted


@pytest.mark.parametrize(("lowest", "note"), [(0.5, "of it; logarithmic"), (0.0, "of it")])
def test_the_note_says_how_the_axis_is(lowest, note):
    chart = line_chart("P", "of it", [Line("a", [(1, lowest), (2, 3.0)])], log=True)
    assert chart.note == note


def test_the_picture_is_described_in_words():
    chart = line_chart("Loss", "", [Line('<a "b">', [(1, 2.5), (1000, 1.25)])])
    root = ElementTree.fromstring(chart.svg)
    assert root.get("role") == "img"
    assert root.get("aria-label") == 'Loss, by step. <a "b">: 2.5 at 1, 1.25 at 1,000'


def test_many_lines_of_a_chart_look_different():
    lines = [Line(str(look), [(0, 1)], look) for look in range(12)]
    assert len({(line.colour, str(line.dash)) for line in lines}) == 12


def test_every_colour_is_a_variable_of_the_page():
    kinds = ("line", "faint", "dots", "stairs")
    lines = [Line("a", [(0, 1), (1, 2), (2, 3)], look, kinds[look % 4]) for look in range(12)]
    chart = line_chart("a", "", lines)
    used = {name for _, name in re.findall(r"(stroke|fill): var\((--\w+)\)", chart.svg)}
    assert used == {f"--c{look}" for look in range(6)} | {"--dim", "--line"}
    assert not re.findall(r"#[0-9a-f]{6}\b", chart.svg)
    style = (TEMPLATES / "page.css").read_text(encoding="utf-8")
    assert all(style.count(f"{name}: #") == 3 for name in used)  # light, dark, print


def test_two_charts_of_a_page_share_no_id_and_each_is_the_same_every_time():
    first, second = (
        [line_chart("a", "", [Line("a", [(0, 1), (1, value)])]).svg for value in (2, 3)]
        for _ in range(2)
    )
    assert first == second
    ids = [set(re.findall(r'\bid="([^"]+)"', svg)) for svg in first]
    assert ids[0]
    assert not ids[0] & ids[1]


def test_few_points_keep_the_extremes():
    rng = np.random.default_rng(0)
    points = [*enumerate(rng.normal(size=10_000).tolist())]
    kept = thinned(points, 100)
    assert len(kept) <= 100
    assert kept == sorted(set(kept) & set(points))
    for pick in (min, max):
        assert pick(points, key=lambda point: point[1]) in kept
    assert kept[0] == points[0]
    assert kept[-1] == points[-1]


@pytest.mark.parametrize(
    ("value", "axis", "read"),
    [(0, "0", "0"), (12, "12", "12"), (0.1 + 0.2, "0.3", "0.3"), (9999, "9,999", "9,999"),
     (25_000, "25k", "25,000"), (3e6, "3M", "3,000,000"), (5e-5, "5e-05", "5.00e-05")],
)  # fmt: skip
def test_numbers(value, axis, read):
    assert (short(value), number(value)) == (axis, read)
