"""Scores of translations by sacrebleu, on detokenised, cased text, with their signatures.

The only place where a score is computed: validation, `scripts/evaluate.py`, comparisons, reports.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER
from sacrebleu.significance import estimate_ci

from seq2seq.errors import DataError
from seq2seq.evaluation.record import Score
from seq2seq.evaluation.resampling import Array, Scorer, bootstrap

Metric: TypeAlias = BLEU | CHRF | TER


@dataclass(frozen=True)
class Kind:
    """A score: its metric and the form of the text that it is computed on.

    Attributes:
        make: a fresh metric. What looks tokenised is told by `scores.py`, not by sacrebleu.
        form: a method of `Moses` that makes it; None = the text as it is.
    """

    make: Callable[[], Metric]
    form: str | None = None


KINDS = {
    "BLEU": Kind(lambda: BLEU(force=True)),
    "chrF2": Kind(CHRF),
    "chrF2++": Kind(lambda: CHRF(word_order=2)),
    "TER": Kind(TER),
    "BLEU-tok": Kind(lambda: BLEU(tokenize="none", force=True), "tokenised"),
    "BLEU-punct": Kind(lambda: BLEU(force=True), "punctuation"),
}


def corpus_scores(
    hypotheses: Sequence[str],
    references: Sequence[str],
    kinds: Sequence[str] = tuple(KINDS),
    language: str = "fr",
    intervals: bool = False,
) -> list[Score]:
    """Scores of a corpus, one reference each.

    BLEU (Papineni et al. 2002, as by Post 2018), chrF2 and chrF2++ (Popović 2015, 2017), TER
    (Snover et al. 2006); BLEU-tok, BLEU as papers on Multi30k print it (`Moses.tokenised`);
    BLEU-punct, BLEU of text whose punctuation is normalised.

    Args:
        hypotheses, references: line n of one belongs to line n of the other.
        kinds: names in `KINDS`.
        language: of both.
        intervals: also 95 % intervals by bootstrap (Koehn 2004). As sacrebleu reports them: half
            as wide as the middle 95 % of the resamples on either side of their mean.

    Raises:
        DataError: the two lists differ in length, or are empty.
    """
    _check_lengths(hypotheses, references)
    found = []
    for name in kinds:
        metric, (form, said) = KINDS[name].make(), form_of(name, language)
        texts = [[form(line) for line in lines] for lines in (hypotheses, references)]
        if intervals:
            value, *limits = _with_interval(metric, *texts)
        else:
            value, limits = float(metric.corpus_score(texts[0], [texts[1]]).score), []
        found.append(Score(name, value, f"{said}{metric.get_signature()}", *limits))
    return found


def _with_interval(
    metric: Metric, hypotheses: Sequence[str], references: Sequence[str]
) -> tuple[float, float, float]:
    """A score, its lower and its upper limit, by sacrebleu's bootstrap.

    Its `corpus_score(..., n_bootstrap=...)` draws the same resamples, but stumbles over those in
    which nothing is right.
    """
    stats_NK, score = statistics(metric, hypotheses, references), scorer(metric)
    (scores,) = bootstrap(score, stats_NK[None])
    mean, half = estimate_ci(scores)
    return float(score(stats_NK.sum(axis=0))), float(mean - half), float(mean + half)


def statistics(metric: Metric, hypotheses: Sequence[str], references: Sequence[str]) -> Array:
    """What each sentence adds to a score; float64 for sums by BLAS, exact as all are integers."""
    return np.array(metric._extract_corpus_statistics(hypotheses, [references]), dtype=float)


def scorer(metric: Metric) -> Scorer:
    """The score of sums of `statistics`; float32 sums give float32, as in sacrebleu."""

    def score(sums_K: Any) -> float:
        return metric._compute_score_from_stats(sums_K).score

    return score


def form_of(name: str, language: str) -> tuple[Callable[[str], str], str]:
    """What is done to a text before it is scored so, and how the signature begins for it."""
    steps = KINDS[name].form
    if steps is None:
        return str, ""
    from seq2seq.evaluation.moses import Moses  # slow to load, and validation does without

    moses = Moses(language)
    return getattr(moses, steps), f"{moses.signature(steps)}|"


def chrf_scores(hypotheses: Sequence[str], references: Sequence[str]) -> tuple[float, list[float]]:
    """chrF2 of a corpus and of each of its sentences, in the time that the corpus takes alone."""
    _check_lengths(hypotheses, references)
    metric = CHRF()
    counts = metric._extract_corpus_statistics(hypotheses, [references])
    corpus, *each = (metric._aggregate_and_compute(rows).score
                     for rows in (counts, *([row] for row in counts)))  # fmt: skip
    return corpus, each


def length_ratio(hypotheses: Sequence[str], references: Sequence[str]) -> float:
    """Tokens of the translations for each of the references, as BLEU counts them."""
    _check_lengths(hypotheses, references)
    score = BLEU(force=True).corpus_score(hypotheses, [references])
    return score.sys_len / score.ref_len if score.ref_len else 0.0


def _check_lengths(hypotheses: Sequence[str], references: Sequence[str]) -> None:
    if len(hypotheses) != len(references) or not references:
        raise DataError(
            f"{len(hypotheses)} translations cannot be scored against {len(references)} "
            "references: there must be one reference for each, and at least one"
        )
