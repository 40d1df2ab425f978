"""The course of docs/attention runs, and each of its exercises has its answer."""

from __future__ import annotations

import re
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
import pytest
import torch

LESSONS = sorted((Path(__file__).resolve().parents[2] / "docs" / "attention").glob("plot_*.py"))


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.stem)
def test_lesson_runs_and_draws(lesson, monkeypatch):
    matplotlib.use("agg")
    plt.close("all")
    monkeypatch.setattr(plt, "show", lambda: None)
    with torch.random.fork_rng(), plt.rc_context():
        exec(compile(lesson.read_text(encoding="utf-8"), str(lesson), "exec"), {})
    figures, mechanisms = plt.get_fignums(), mechanisms_of(lesson)
    plt.close("all")
    assert len(figures) >= len(mechanisms), "each mechanism has a figure"


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.stem)
def test_blocks_of_a_lesson_are_those_that_a_notebook_shows(lesson):
    text = lesson.read_text(encoding="utf-8")
    assert not re.findall(r"^(?!\.\. code-block).*::\n", text, re.MULTILINE)


def mechanisms_of(lesson: Path) -> list[str]:
    """The headings of a lesson, but for its title and its answers."""
    headings = re.findall(r"^# (.+)\n# -+$", lesson.read_text(encoding="utf-8"), re.MULTILINE)
    assert headings[-1] == "Answers"
    return headings[:-1]


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.stem)
def test_each_mechanism_has_an_exercise_and_each_exercise_an_answer(lesson):
    text = lesson.read_text(encoding="utf-8")
    exercises = re.findall(r"\*\*Exercise (\d\.\d)\.\*\*", text)
    answers = re.findall(r"^# \*\*(\d\.\d)\*\*", text, re.MULTILINE)
    number = lesson.stem.split("_")[1]
    assert exercises == answers == [f"{number}.{n + 1}" for n in range(len(exercises))]
    for part in re.split(r"^# .+\n# -+$", text, flags=re.MULTILINE)[1:-1]:
        assert "**Exercise" in part
