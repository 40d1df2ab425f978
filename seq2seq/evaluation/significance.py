"""Significance: the resamples of sacrebleu's bootstrap, and paired tests of two systems.

A score is a function of sums over sentences, so a resample only needs a sum of the sentences'
statistics. sacrebleu's own functions hold all resamples in memory, too much for large test sets;
these hold a few.
Letters of shapes: S systems, N sentences, K statistics of a sentence.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from seq2seq.errors import RunError

Array: TypeAlias = npt.NDArray[Any]
Scorer: TypeAlias = Callable[[Any], float]  # its argument: the K sums over sentences

RESAMPLES = 1000  # of the bootstrap, as by default in sacrebleu
TRIALS = 10_000  # of the randomisation, as by default in sacrebleu
AT_ONCE = 32  # trials; in multiples of 32, numpy draws the same coins as for all trials at once
ROUNDING = 1e-9  # two score differences count as equal if they differ by less


def bootstrap_settings() -> dict[str, Any]:
    """Return the number of resamples and the seed of the intervals, the same as in sacrebleu.

    Raises:
        RunError: the seed in SACREBLEU_SEED is no number. With sacrebleu's `none`, no interval
            could be reproduced.
    """
    seed = os.environ.get("SACREBLEU_SEED", "12345")
    if not seed.isdecimal():
        why = f"SACREBLEU_SEED={seed} is not a seed: set it to a whole number, or unset it"
        raise RunError(why)
    return {"resamples": RESAMPLES, "seed": seed}


def _generator() -> np.random.Generator:
    return np.random.default_rng(int(bootstrap_settings()["seed"]))


def resamples(sentences: int) -> Iterator[Array]:
    """Yield the sentence indices (N,) of each resample, the same that sacrebleu draws."""
    draw = _generator()
    for _ in range(RESAMPLES):
        yield draw.choice(sentences, size=sentences)


def bootstrap(score: Scorer, stats_SNK: Array) -> list[Array]:
    """Compute the scores (resamples,) of each system, all systems on the same resamples."""
    sentences = stats_SNK.shape[1]
    counts = (np.bincount(chosen, minlength=sentences) for chosen in resamples(sentences))
    # sacrebleu scores resamples in float32; these scores are to equal sacrebleu's in each digit.
    sums = ((own.astype(float) @ stats_SNK).astype(np.float32) for own in counts)
    rows = [[score(own) for own in sums_SK] for sums_SK in sums]
    return [np.array(own) for own in zip(*rows, strict=True)]


def bootstrap_p(resampled: Sequence[Array], difference: float) -> float:
    """Return the p-value of a difference by paired bootstrap (Koehn 2004), as in sacrebleu.

    `resampled` has the scores of two systems on the same resamples; `difference` is that of their
    scores on the whole test set.
    """
    differences = np.abs(resampled[1] - resampled[0])
    larger = int((differences - differences.mean() > abs(difference)).sum())
    return (larger + 1) / (len(differences) + 1)


def randomisation_p(score: Scorer, stats_2NK: Array) -> float:
    """Return the p-value of a difference by approximate randomisation (Riezler and Maxwell 2005).

    In each trial, a coin decides for each sentence whether the two systems swap translations. The
    coins are the same as sacrebleu's. Unlike sacrebleu, equal differences count as well as larger
    ones: if only a few sentences differ, most trials give an equal difference.
    """
    first_K, second_K = stats_2NK.sum(axis=1)
    swapped_NK = stats_2NK[1] - stats_2NK[0]
    least = abs(score(first_K) - score(second_K)) - ROUNDING
    draw, as_large = _generator(), 0
    for start in range(0, TRIALS, AT_ONCE):
        size = (min(AT_ONCE, TRIALS - start), len(swapped_NK))
        stays = draw.integers(2, size=size, dtype=bool)
        for change_K in (~stays).astype(float) @ swapped_NK:
            as_large += abs(score(first_K + change_K) - score(second_K - change_K)) >= least
    return (as_large + 1) / (TRIALS + 1)
