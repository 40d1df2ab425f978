"""Charts show their values where they are, and say them to those who do not see them."""

from __future__ import annotations

import json
import re
from xml.etree import ElementTree

import numpy as np
import pytest
from html_elements import Page

from seq2seq.report.chart import (
    BOTTOM,
    HEIGHT,
    LEFT,
    RIGHT,
    TOP,
    WIDTH,
    Line,
    chart,
    number,
    short,
    thinned,
    ticks,
)


def path_of(text: str, kind: str) -> list[tuple[float, float]]:
    """The points of the first line of a kind."""
    [path] = re.findall(rf'<path class="line {kind} c\d" d="M([^"]+)"', text.split("keys")[0])[:1]
    return [tuple(map(float, point.split())) for point in path.split("L")]


def data_of(text: str):
    return json.loads(re.search(r'application/json">(.*?)</script>', text)[1])


def test_points_stand_where_interpolation_puts_them():
    points = [(10, 2.0), (20, 6.0), (40, 4.0)]
    drawn = path_of(chart("Loss", "", [Line("a", points)]), "line")
    low, high = 2 - 0.16, 6 + 0.16  # 4 % of the range are left free
    xs = np.interp([10, 20, 40], [0, 40], [LEFT, WIDTH - RIGHT])
    ys = np.interp([2, 6, 4], [low, high], [HEIGHT - BOTTOM, TOP])
    np.testing.assert_allclose(drawn, np.stack([xs, ys], axis=1), atol=0.05)


def test_a_logarithmic_axis_has_equal_distances_for_equal_quotients():
    points = [(1, 1.0), (2, 10.0), (3, 100.0)]
    drawn = path_of(chart("P", "", [Line("a", points)], log=True), "line")
    assert drawn[0][1] - drawn[1][1] == pytest.approx(drawn[1][1] - drawn[2][1], abs=0.11)
    linear = path_of(chart("P", "", [Line("a", [(1, 0.0), *points])], log=True), "line")
    assert linear[1][1] - linear[2][1] < 20  # zero has no logarithm


@pytest.mark.parametrize(("lowest", "note"), [(0.5, "of it; logarithmic"), (0.0, "of it")])
def test_the_note_says_how_the_axis_is(lowest, note):
    text = chart("P", "of it", [Line("a", [(1, lowest), (2, 3.0)])], log=True)
    assert f"</b> {note}</figcaption>" in text


def test_zero_is_the_lower_end_if_asked_for():
    [_, (_, y)] = path_of(chart("S", "", [Line("a", [(1, 5.0), (2, 0.0)])], zero=True), "line")
    assert y == HEIGHT - BOTTOM


def test_the_legend_has_the_last_values_and_the_data_all_of_them():
    text = chart("Loss", "", [Line("one", [(1, 5), (2, 3.25)]), Line("two", [(1, 9), (3, 1234.5)])])
    page = Page(text)
    assert "step 3one 3.25two 1,234" in page.text
    assert data_of(text)["lines"] == [[[1, 2], [5, 3.25]], [[1, 3], [9, 1234.5]]]
    [label] = page.values("aria-label")
    assert label == "Loss, by step. one: 5 at 1, 3.25 at 2; two: 9 at 1, 1,234 at 3"


def test_lines_of_runs_differ_in_colour_or_dashes():
    lines = [Line(str(i), [(1, i), (2, i)], look=i) for i in range(12)]
    looks = re.findall(r'class="line line (c\d)" d="[^"]+"( stroke-dasharray="[^"]+")?/>',
                       chart("a", "", lines).split("keys")[0])  # fmt: skip
    assert len(looks) == len(set(looks)) == 12


def test_histograms_are_stairs():
    text = chart("L", "", [Line("a", [(0, 2), (1, 4), (2, 0)], kind="stairs")], zero=True)
    top, floor = HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) / 1.04, HEIGHT - BOTTOM
    [path] = re.findall(r'class="line stairs c0" d="([^"]+)"', text)
    heights = [float(v) for v in re.findall(r"V([\d.]+)", path)]
    np.testing.assert_allclose(heights, [(top + floor) / 2, top, floor, floor], atol=0.06)


@pytest.mark.parametrize("points", [[(5, 1.0)], [(5, 0.0)], [(0, 2.0), (0, 3.0)], [(1, 7), (2, 7)]])
@pytest.mark.parametrize("options", [{}, {"log": True}, {"zero": True}])
def test_points_without_a_range_can_be_drawn(points, options):
    text = chart("a", "", [Line("a", points)], **options)
    Page(text)
    assert "nan" not in text
    assert "inf" not in text


def test_texts_are_escaped():
    text = chart("<b>", "<i>", [Line('"<script>&\0', [(1, 2)])])
    assert "<b><b>" not in text
    page = Page(text)
    assert page.text.startswith("<b> <i>")
    assert '"<script>&‹U+0000› 2' in page.text
    svg = re.search(r"<svg viewBox.*?</svg>", text, re.DOTALL)[0].replace(" hidden", "")
    ElementTree.fromstring(svg)


@pytest.mark.parametrize(
    ("low", "high", "log", "expected"),
    [
        (0, 10, False, [0, 2.5, 5, 7.5, 10]),
        (0, 6000, False, [0, 2000, 4000, 6000]),
        (-1, 1, False, [-1, -0.5, 0, 0.5, 1]),
        (3, 5000, True, [10, 100, 1000]),
        (1, 12, True, [1, 3, 10]),
        (0.9, 2.2, True, [1, 1.25, 1.5, 1.75, 2]),
        (0.52, 1.7, True, [0.6, 0.8, 1, 1.2, 1.4, 1.6]),
    ],
)
def test_ticks_are_round(low, high, log, expected):
    np.testing.assert_allclose(ticks(low, high, log), expected, atol=1e-12)


@pytest.mark.parametrize("seed", range(20))
def test_there_are_a_few_ticks_and_none_outside(seed):
    rng = np.random.default_rng(seed)
    low, high = sorted(10 ** rng.uniform(-6, 6, 2))
    for log in (False, True):
        found = ticks(low, high, log)
        assert 1 <= len(found) <= 7
        assert all(low * 0.999999 <= value <= high * 1.000001 for value in found)
        assert len(set(map(short, found))) == len(found)


@pytest.mark.parametrize(
    ("value", "expected"),
    [(0, "0"), (40.0, "40"), (1234567, "1,234,567"), (1234.5, "1,234"), (0.123456, "0.1235"),
     (0.0002, "2.00e-4"), (-3.14159, "-3.142")],
)  # fmt: skip
def test_numbers_are_short(value, expected):
    assert number(value) == expected


def test_thinning_keeps_ends_peaks_and_order():
    rng = np.random.default_rng(0)
    points = [(float(i), float(y)) for i, y in enumerate(rng.normal(size=5000))]
    points[1234] = (1234.0, 99.0)
    kept = thinned(points, 200)
    assert len(kept) <= 200
    assert {points[0], points[-1], points[1234], min(points, key=lambda p: p[1])} <= set(kept)
    assert kept == sorted(set(kept))
    assert set(kept) <= set(points)
    assert thinned(points[:200], 200) == points[:200]
