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
    assert counts.keys() == {"embeddings", "encoder", "decoder", "output"}
    assert sum(counts.values()) == together == number(r"([\d,]+) parameters;", printed)
    assert "output                   0        0.0 MiB (shared with the embeddings)" in printed


def test_the_lengths_fit_together(printed):
    batches = number(r"epoch +([\d,]+) batches", printed)
    assert number(r"epochs +([\d.]+) of", printed) == pytest.approx(20, rel=0.05)
    assert number(r"epochs +[\d.]+ of ([\d.]+) steps", printed) == pytest.approx(batches / 2, abs=1)
    steps = number(r"^  steps +([\d,]+)", printed)
    assert steps == round(20 * batches / 2)
    tokens = number(r"batches, ([\d,]+) target tokens", printed)
    assert number(r"^  step +([\d,]+)", printed) == pytest.approx(2 * tokens / batches, abs=1)


def test_shapes_go_through_the_model(printed):
    pairs, source, target = map(
        int, re.search(r"(\d+) pairs \(B\), (\d+) source and (\d+) target", printed).groups()
    )
    for name, shape in {
        "source": (pairs, source),
        "encoder.*": (pairs, source, 64),
        "decoder.*": (pairs, target, 64),
    }.items():
        assert re.search(rf"^  {re.escape(name)} +{re.escape(str(shape))}$", printed, re.MULTILINE)


def test_the_first_batch_is_shown_as_the_model_sees_it(printed):
    found = re.findall(r"^  (source|target_in|labels)  +((?:▁|<).*)$", printed, re.MULTILINE)
    assert [kind for kind, _ in found] == ["source", "target_in", "labels"] * 3
    for start in range(0, 9, 3):
        source, target_in, labels = (text.split() for _, text in found[start : start + 3])
        assert "</s>" in source
        assert target_in[0] == "<s>"
        real = labels.index("</s>")
        assert target_in[1 : real + 1] == labels[:real]


def test_memory_and_time_are_estimated(printed):
    weights, ema = (number(rf"^  {name} +([\d,]+) MiB$", printed) for name in ("weights", "EMA"))
    assert weights == ema
    assert number(r"activations +([\d,]+) MiB", printed) > 0
    assert number(r"measured +([\d,]+) MiB at most, of the process", printed) > 100
    assert "validation and checkpoints come on top" in printed
    assert number(r"batch +([\d.]+) s, [\d,]+ target tokens/s", printed) > 0
