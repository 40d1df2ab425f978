"""Significance: the resamples of sacrebleu's bootstrap, and paired tests of two systems.

Scores are functions of sums over sentences, so that a resample is a sum of what each sentence has.
sacrebleu's own functions hold all resamples in memory, which forbids large sets; these hold a few.
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
Scorer: TypeAlias = Callable[[Any], float]  # of the K sums over sentences

RESAMPLES = 1000  # of the bootstrap, sacrebleu's default
TRIALS = 10_000  # of the randomisation, likewise
AT_ONCE = 32  # trials; of a multiple of 32, numpy draws the same coins as of all at once
ROUNDING = 1e-9  # differences of scores that differ by less are equal


def bootstrap_settings() -> dict[str, Any]:
    """Resamples and seed of the intervals; sacrebleu has the same.

    Raises:
        RunError: it is no number. With sacrebleu's `none`, no interval could be computed again.
    """
    seed = os.environ.get("SACREBLEU_SEED", "12345")
    if not seed.isdecimal():
        raise RunError(f"SACREBLEU_SEED={seed} is no seed: set it to a whole number, or unset it")
    return {"resamples": RESAMPLES, "seed": seed}


def _generator() -> np.random.Generator:
    return np.random.default_rng(int(bootstrap_settings()["seed"]))


def resamples(sentences: int) -> Iterator[Array]:
    """The sentences of each resample, those that sacrebleu draws."""
    draw = _generator()
    for _ in range(RESAMPLES):
        yield draw.choice(sentences, size=sentences)


def bootstrap(score: Scorer, stats_SNK: Array) -> list[Array]:
    """The scores of each system on the same resamples."""
    sentences = stats_SNK.shape[1]
    counts = (np.bincount(chosen, minlength=sentences) for chosen in resamples(sentences))
    # sacrebleu computes scores of resamples in float32, and its digits are wanted.
    sums = ((own.astype(float) @ stats_SNK).astype(np.float32) for own in counts)
    rows = [[score(own) for own in sums_SK] for sums_SK in sums]
    return [np.array(own) for own in zip(*rows, strict=True)]


def bootstrap_p(resampled: Sequence[Array], difference: float) -> float:
    """How likely a difference is by chance: the paired bootstrap (Koehn 2004), as by sacrebleu."""
    differences = np.abs(resampled[1] - resampled[0])
    larger = int((differences - differences.mean() > abs(difference)).sum())
    return (larger + 1) / (len(differences) + 1)


def randomisation_p(score: Scorer, stats_2NK: Array) -> float:
    """The same by approximate randomisation (Riezler and Maxwell 2005).

    The translations of each sentence change their systems or not, by a coin. The coins are those
    of sacrebleu, but differences that are as large are counted as well as larger ones: among a few
    sentences that differ, these are most.
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
