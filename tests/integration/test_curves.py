"""300 steps on the starter corpus: the loss curve is the same whatever computes it."""

from __future__ import annotations

import csv
from pathlib import Path
from statistics import fmean

import pytest

STEPS, WINDOW = 300, 25
RUN = ("experiment=demo", "logger=csv", "decode=greedy", f"trainer.max_steps={STEPS}",
       f"trainer.val_every_n_steps={STEPS}", "trainer.val_pairs=20", "trainer.log_every_n_steps=1",
       "trainer.accelerator=cpu", "optim.warmup_steps=100")


def windows(run_dir: Path) -> list[float]:
    """Nats per target token, as means over windows of steps."""
    [file] = run_dir.glob("metrics/version_*/metrics.csv")
    with file.open(encoding="utf-8") as lines:
        nll = [float(row["train/nll"]) for row in csv.DictReader(lines) if row["train/nll"]]
    assert len(nll) == STEPS
    return [fmean(nll[first : first + WINDOW]) for first in range(0, STEPS, WINDOW)]


@pytest.fixture(scope="module")
def curve(script, tmp_path_factory):
    """The curve of a run with these settings; fp32 and sdpa are made once."""
    known: dict[tuple[str, ...], list[float]] = {}

    def run(*settings: str) -> list[float]:
        if settings not in known:
            run_dir = tmp_path_factory.mktemp("curves") / "run"
            result = script("train", *RUN, *settings, f"run_dir={run_dir}")
            assert result.returncode == 0, result.stdout + result.stderr
            known[settings] = windows(run_dir)
        return known[settings]

    return run


@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "bound"),
    [
        # Rounding alone: 0.0000 for 125 steps, then up to 0.0023 as the rate nears its peak.
        (("trainer.precision=32-true", "model.kernel=reference"), 0.01),
        (("trainer.precision=bf16-mixed",), 0.02),
        (("trainer.precision=bf16-mixed", "model.kernel=reference"), 0.02),
    ],
    ids=["fp32-reference", "bf16-sdpa", "bf16-reference"],
)
def test_curves_agree_with_that_of_fp32_and_sdpa(settings, bound, curve):
    """In nats per token, the bound of each window's mean."""
    expected, found = curve("trainer.precision=32-true"), curve(*settings)
    gaps = [abs(one - other) for one, other in zip(found, expected, strict=True)]
    print("\nstep  fp32 sdpa  this   apart")
    for number, row in enumerate(zip(expected, found, gaps, strict=True), start=1):
        print(f"{number * WINDOW:4d}  {row[0]:9.4f}  {row[1]:.4f}  {row[2]:.4f}")
    assert expected[-1] < 0.6 * expected[0]  # something was learnt
    assert max(gaps) <= bound
