"""Resamples are sacrebleu's, in little memory; the randomisation is that of all swaps."""

from __future__ import annotations

import itertools
import random
import tracemalloc

import numpy as np
import pytest
from sacrebleu.significance import PairedTest, Result, estimate_ci

from seq2seq.errors import UserError
from seq2seq.evaluation.metrics import METRICS, statistics
from seq2seq.evaluation.significance import (
    bootstrap,
    bootstrap_p,
    bootstrap_settings,
    randomisation_p,
    resamples,
)


def system(references: list[str], faults: float, seed: int) -> list[str]:
    draw = random.Random(seed)
    return [" ".join("x" if draw.random() < faults else word for word in line.split())
            for line in references]  # fmt: skip


DRAW = random.Random(0)
REFERENCES = [" ".join(DRAW.choices("abcdefgh", k=DRAW.randint(5, 11))) for _ in range(45)]
SYSTEMS = [system(REFERENCES, 0.1, 1), system(REFERENCES, 0.13, 2)]


def of_sacrebleu(metric, kind: str) -> list[Result]:
    named = [("first", SYSTEMS[0]), ("second", SYSTEMS[1])]
    _, columns = PairedTest(named, {"": metric}, [REFERENCES], kind)()
    return next(own for name, own in columns.items() if name != "System")


@pytest.mark.parametrize("name", ["BLEU", "chrF2", "TER"])
def test_the_tests_are_those_of_sacrebleu(name, monkeypatch):
    monkeypatch.setattr("seq2seq.evaluation.significance.TRIALS", 1010)  # no multiple of 32
    monkeypatch.setitem(PairedTest._DEFAULT_SAMPLES, "ar", 1010)
    found = [statistics(name, own, REFERENCES) for own in SYSTEMS]
    score, stats_SNK = found[0].score, np.stack([own.stats_NK for own in found])
    values = [score(sums) for sums in stats_SNK.sum(axis=1)]
    resampled = bootstrap(score, stats_SNK)
    theirs = of_sacrebleu(METRICS[name](), "bs")
    assert values == [one.score for one in theirs]
    assert [estimate_ci(own) for own in resampled] == [(one.mean, one.ci) for one in theirs]
    assert bootstrap_p(resampled, values[1] - values[0]) == theirs[1].p_value
    theirs = of_sacrebleu(METRICS[name](), "ar")
    assert 0.01 < theirs[1].p_value < 0.9
    if name == "TER":  # whole numbers, so many differences are as large, and they leave these out
        assert randomisation_p(score, stats_SNK) > theirs[1].p_value
    else:
        assert randomisation_p(score, stats_SNK) == pytest.approx(theirs[1].p_value, abs=2e-3)


def exact_p(score, stats_2NK) -> float:
    """Of all ways to swap sentences that differ, how many make a difference as large."""
    rows = np.flatnonzero((stats_2NK[0] != stats_2NK[1]).any(axis=1))
    found = []
    for swaps in itertools.product([False, True], repeat=len(rows)):
        own = stats_2NK.copy()
        swapped = rows[np.array(swaps)]
        own[:, swapped] = own[::-1, swapped]
        found.append(abs(score(own[0].sum(axis=0)) - score(own[1].sum(axis=0))))
    return float(np.mean(np.array(found) >= found[0] - 1e-9))


@pytest.mark.parametrize("name", ["BLEU", "chrF2", "TER"])
@pytest.mark.parametrize("differing", [1, 2, 7])
def test_the_randomisation_is_that_of_all_swaps(name, differing, monkeypatch):
    monkeypatch.setattr("seq2seq.evaluation.significance.TRIALS", 2000)
    others = [*system(REFERENCES[:differing], 0.4, 3), *SYSTEMS[0][differing:]]
    both = [statistics(name, own, REFERENCES) for own in (others, SYSTEMS[0])]
    score, stats_2NK = both[0].score, np.stack([own.stats_NK for own in both])
    expected, found = exact_p(score, stats_2NK), randomisation_p(score, stats_2NK)
    assert found == pytest.approx(expected, abs=4 * (expected * (1 - expected) / 2000) ** 0.5)
    assert expected >= 2 / 2**differing  # all stay, and all change: never the 0.0001 of few trials


def test_large_sets_take_little_memory():
    stats_2NK = np.random.default_rng(0).integers(1, 9, (2, 6000, 3)).astype(float)
    tracemalloc.start()
    bootstrap(lambda sums: sums[0] / sums[1], stats_2NK)
    randomisation_p(lambda sums: sums[0] / sums[1], stats_2NK)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10e6  # the indices of all resamples alone would take 48 MB


def test_the_seed_is_that_of_sacrebleu_or_refused(monkeypatch):
    assert bootstrap_settings() == {"resamples": 1000, "seed": "12345"}
    drawn = next(resamples(9)).tolist()
    assert drawn == next(resamples(9)).tolist()
    monkeypatch.setenv("SACREBLEU_SEED", "7")
    assert bootstrap_settings()["seed"] == "7"
    assert drawn != next(resamples(9)).tolist()
    for seed in ("abc", "-1", "", "none"):
        monkeypatch.setenv("SACREBLEU_SEED", seed)
        with pytest.raises(UserError, match=f"SACREBLEU_SEED={seed} is not a seed"):
            bootstrap_settings()
