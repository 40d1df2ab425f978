"""`dry_run=true` says what a run would take, and leaves nothing behind."""

from __future__ import annotations

import re
import sys

import pytest
from conftest import ROOT, TOY, run_command


@pytest.fixture(scope="module")
def printed(toy_corpus, tmp_path_factory):
    folder = tmp_path_factory.mktemp("nowhere")
    result = run_command(
        sys.executable, ROOT / "scripts" / "train.py", *TOY, f"data.path={toy_corpus}",
        "dry_run=true", "trainer.max_steps=20epochs", "trainer.accumulate=2", "optim.ema=0.9",
        "trainer=cpu", "trainer.precision=32-true", cwd=folder,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert list(folder.iterdir()) == []  # no run, no logs
    assert "results in" not in result.stdout
    return result.stdout


def number(pattern: str, printed: str) -> float:
    return float(re.search(pattern, printed, re.MULTILINE).group(1).replace(",", ""))


def test_the_parameters_are_those_of_the_parts(printed):
    parts = re.findall(r"^  (\w+) +([\d,]+) +[\d.]+ MiB", printed, re.MULTILINE)
    counts = {name: int(count.replace(",", "")) for name, count in parts}
    together = counts.pop("together")
    assert counts.keys() >= {"source_embedding", "encoder", "decoder"}
    assert sum(counts.values()) == together == number(r"([\d,]+) parameters;", printed)


def test_the_lengths_fit_together(printed):
    batches = number(r"epoch +([\d,]+) batches", printed)
    assert number(r"epochs +([\d.]+) of", printed) == pytest.approx(20, rel=0.05)
    assert number(r"epochs +[\d.]+ of ([\d.]+) steps", printed) == pytest.approx(batches / 2, abs=1)
    steps = number(r"^  steps +([\d,]+)", printed)
    assert steps == round(20 * batches / 2)
    tokens = number(r"batches, ([\d,]+) target tokens", printed)
    assert number(r"^  step +([\d,]+)", printed) == pytest.approx(2 * tokens / batches, abs=1)


def test_memory_and_time_are_estimated(printed):
    weights, ema = (number(rf"^  {name} +([\d,]+) MiB$", printed) for name in ("weights", "EMA"))
    assert weights == ema
    assert number(r"measured +([\d,]+) MiB at most, of the process", printed) > 100
    assert "validation and checkpoints come on top" in printed
    assert number(r"batch +([\d.]+) s, [\d,]+ target tokens/s", printed) > 0
