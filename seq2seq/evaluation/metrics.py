"""Scores of translations by sacrebleu, on detokenised, cased text, with their signatures.

Validation, `seq2seq evaluate`, comparisons and reports all compute their scores here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from importlib.metadata import version
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER
from sacrebleu.significance import estimate_ci

from seq2seq.errors import DataError, nearest
from seq2seq.evaluation.record import Score
from seq2seq.evaluation.significance import Array, Scorer, bootstrap

Metric: TypeAlias = BLEU | CHRF | TER

# `force` switches off sacrebleu's warning about tokenised text: `texts.py` warns instead.
METRICS: dict[str, Callable[[], Metric]] = {
    "BLEU": lambda: BLEU(force=True),
    "chrF2": CHRF,
    "chrF2++": lambda: CHRF(word_order=2),
    "TER": TER,
    "BLEU-tok": lambda: BLEU(tokenize="none", force=True),
    "BLEU-punct": lambda: BLEU(force=True),
}
# Scores that are computed on a changed form of the text; all others use the text as it is. Papers
# on Multi30k score the first form, since its references have that form (Elliott et al. 2016, 2017).
FORMS = {"BLEU-tok": "lower+punctuation+tokens", "BLEU-punct": "punctuation"}


class Statistics(NamedTuple):
    """The sufficient statistics of a score, by sentence.

    `score` computes the score from the K sums over sentences; float32 sums give a float32 score,
    as in sacrebleu.
    """

    score: Scorer
    stats_NK: Array  # K integers for each of N sentences, as float64, so that BLAS can sum them
    signature: str  # how the score is computed, in sacrebleu's notation


def statistics(
    name: str, hypotheses: Sequence[str], references: Sequence[str], language: str = "fr"
) -> Statistics:
    """Compute the statistics of one score of `METRICS` for each sentence.

    Raises:
        DataError: the two lists differ in length, or are empty.
    """
    if len(hypotheses) != len(references) or not references:
        raise DataError(
            f"{len(hypotheses)} translations cannot be scored against {len(references)} "
            "references: there must be one reference for each, and at least one"
        )
    metric, signature = METRICS[name](), ""
    if name in FORMS:
        form = _form(FORMS[name], language)
        hypotheses, references = [form(line) for line in hypotheses], [form(r) for r in references]
        signature = f"text:{FORMS[name]}|lang:{language}|sacremoses:{version('sacremoses')}|"
    stats_NK = np.array(metric._extract_corpus_statistics(hypotheses, [references]), dtype=float)

    def score(sums_K: Any) -> float:
        return metric._compute_score_from_stats(sums_K).score

    return Statistics(score, stats_NK, f"{signature}{metric.get_signature()}")


def _form(form: str, language: str) -> Callable[[str], str]:
    """Return a function that brings text into one of `FORMS`, by sacremoses (a port of Moses)."""
    from sacremoses import MosesPunctNormalizer, MosesTokenizer  # slow to load

    normalise: Callable[[str], str] = MosesPunctNormalizer(lang=language).normalize
    if form == "punctuation":
        return normalise
    tokenise = partial(MosesTokenizer(lang=language).tokenize, escape=True, return_str=True)
    return lambda text: tokenise(normalise(text.lower()))


def require_language(language: str) -> None:
    """Raise DataError if Moses does not know a language, since it would treat it as English."""
    from sacremoses.corpus import NonbreakingPrefixes

    known = set(NonbreakingPrefixes().available_langs.values())
    if language not in known:
        raise DataError(
            f"language={language} is none that Moses knows, by which text is normalised and "
            f"tokenised: {nearest(language, known)}"
        )


def corpus_scores(
    hypotheses: Sequence[str],
    references: Sequence[str],
    names: Sequence[str] = tuple(METRICS),
    language: str = "fr",
    intervals: bool = False,
) -> list[Score]:
    """Compute scores of a corpus with one reference for each translation.

    BLEU (Papineni et al. 2002, as by Post 2018), chrF2 and chrF2++ (Popović 2015, 2017), TER
    (Snover et al. 2006); BLEU-tok, BLEU as papers on Multi30k report it; BLEU-punct, BLEU of text
    with normalised punctuation.

    `intervals` are of 95 %, by bootstrap (Koehn 2004), and defined as in sacrebleu: on either side
    of the resamples' mean, half the width of their middle 95 %. (sacrebleu's own `n_bootstrap=`
    draws the same resamples, but fails on one in which nothing matches.)

    Raises:
        DataError: the two lists differ in length, or are empty.
    """
    found = []
    for name in names:
        score, stats_NK, signature = statistics(name, hypotheses, references, language)
        limits = []
        if intervals:
            mean, half = estimate_ci(bootstrap(score, stats_NK[None])[0])
            limits = [float(mean - half), float(mean + half)]
        found.append(Score(name, float(score(stats_NK.sum(axis=0))), signature, *limits))
    return found


def chrf_scores(hypotheses: Sequence[str], references: Sequence[str]) -> tuple[float, list[float]]:
    """Compute chrF2 of a corpus and of each sentence, in the time that the corpus alone takes."""
    score, stats_NK, _ = statistics("chrF2", hypotheses, references)
    # Lists of floats are faster here than arrays.
    return score(stats_NK.sum(axis=0).tolist()), [score(own) for own in stats_NK.tolist()]


def length_ratio(hypotheses: Sequence[str], references: Sequence[str]) -> float:
    """Divide the tokens of the translations by those of the references, as BLEU counts tokens."""
    lengths_N2 = statistics("BLEU", hypotheses, references).stats_NK[:, :2]
    of_hypotheses, of_references = lengths_N2.sum(axis=0).tolist()
    return of_hypotheses / of_references if of_references else 0.0
