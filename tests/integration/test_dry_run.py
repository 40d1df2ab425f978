"""`dry_run=true` says what a run would take, and leaves nothing behind."""

from __future__ import annotations

import re

import pytest
from conftest import TOY


@pytest.fixture(scope="module")
def printed(script, toy_corpus, tmp_path_factory):
    folder = tmp_path_factory.mktemp("nowhere")
    result = script(
        "train", *TOY, f"data.path={toy_corpus}",
        "dry_run=true", "trainer.max_steps=20epochs", "trainer.accumulate=2", "optim.ema=0.9",
        "trainer=cpu", "trainer.precision=32-true", cwd=folder,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert list(folder.iterdir()) == []  # no run, no logs
    assert "results in" not in result.stdout
    return result.stdout


def number(pattern: str, printed: str) -> float:
    return float(re.search(pattern, printed, re.MULTILINE).group(1).replace(",", ""))


def test_the_lengths_fit_together(printed):
    batches = number(r"epoch +([\d,]+) batches", printed)
    assert number(r"epochs +([\d.]+)$", printed) == pytest.approx(20, rel=0.05)
    assert number(r"target tokens: ([\d.]+) steps", printed) == pytest.approx(batches / 2, abs=1)
    assert number(r"^steps +([\d,]+)", printed) == round(20 * batches / 2)


def test_memory_and_time_are_measured(printed):
    assert number(r"memory +([\d,]+) MiB at most, with the largest batch", printed) > 100
    assert "validation and checkpoints come on top" in printed
    assert number(r"batch +([\d.]+) s, [\d,]+ target tokens/s", printed) > 0
