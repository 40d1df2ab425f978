"""Several runs beside each other: quality and time, settings, a page with the tests."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest
from example_run import evaluation, write_run
from html_elements import Page

from seq2seq.cli.compare import main
from seq2seq.report.comparison import in_words, trade_off
from seq2seq.report.run import Run, read_runs


def run_of(name: str, bleu: float | None, hours: float) -> Run:
    """A run of one step that took so long."""
    curves = {"perf/step_seconds": [(1.0, 3600 * hours)]}
    if bleu is not None:
        curves["val/bleu"] = [(1.0, bleu)]
    return Run({"model": {}, "data": {}, "trainer": {}}, curves, folder=Path(name), name=name)


@pytest.mark.parametrize("seed", range(5))
def test_a_star_marks_what_nobody_beats_in_quality_and_time(seed):
    """By trying all pairs."""
    import random

    draw = random.Random(seed)
    points = [(draw.randrange(5), draw.randrange(1, 5)) for _ in range(8)]
    rows = trade_off([run_of(str(i), *point) for i, point in enumerate(points)])
    for (bleu, hours), row in zip(points, rows[1:], strict=True):
        beaten = any(b >= bleu and h <= hours and (b > bleu or h < hours) for b, h in points)
        assert row[-1] == ("" if beaten else "*")


def test_runs_without_figures_have_no_star():
    assert [row[-1] for row in trade_off([run_of("a", None, 1), run_of("b", 1.0, 2)])[1:]] == [
        "", "*",
    ]  # fmt: skip


def test_scores_of_other_test_sets_are_not_set_beside_each_other():
    runs = [
        replace(run_of(name, 3.0, 1), evaluations={Path(name): evaluation(50.0, fingerprint=name)})
        for name in ("a", "b")
    ]
    assert trade_off(runs)[0][1] == "validation BLEU"
    same = [replace(run, evaluations={Path("x"): evaluation(50.0)}) for run in runs]
    assert trade_off(same)[0][1] == "test BLEU"
    assert trade_off(same)[1][1] == "50.00"


def test_the_command_writes_a_page_and_says_what_differs(tmp_path, monkeypatch, capsys):
    """Though the runs were scored on texts that are gone."""
    runs = [write_run(tmp_path / "a"), write_run(tmp_path / "b", optim={"lr": 0.2})]
    page = tmp_path / "c.html"
    monkeypatch.setattr(sys, "argv", ["compare", *map(str, runs), "--output", str(page)])
    main()
    printed = capsys.readouterr().out
    assert printed.endswith(in_words(read_runs(runs)))
    assert "| optim.lr | 0.1 | 0.2 |" in printed
    text = Page(page.read_text(encoding="utf-8")).text
    assert "Quality and time" in text
    assert "million target tokens" in text
