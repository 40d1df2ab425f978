"""BLEU, chrF and TER by sacrebleu, on detokenised, cased text, with their signatures."""

from __future__ import annotations

from dataclasses import dataclass

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from seq2seq.errors import DataError


@dataclass(frozen=True)
class Score:
    """A corpus score and the signature that says how it was computed."""

    name: str
    value: float
    signature: str


def corpus_scores(hypotheses: list[str], references: list[str]) -> list[Score]:
    """BLEU, chrF2 and TER of a corpus, one reference each (Post 2018).

    Raises:
        DataError: the two lists differ in length, or are empty.
    """
    _check_lengths(hypotheses, references)
    metrics = (("BLEU", BLEU()), ("chrF2", CHRF()), ("TER", TER()))
    return [
        Score(
            name,
            metric.corpus_score(hypotheses, [references]).score,
            str(metric.get_signature()),
        )
        for name, metric in metrics
    ]


def corpus_bleu(hypotheses: list[str], references: list[str]) -> float:
    """BLEU alone, as in `corpus_scores`; quick enough for validation."""
    _check_lengths(hypotheses, references)
    return float(BLEU().corpus_score(hypotheses, [references]).score)


def _check_lengths(hypotheses: list[str], references: list[str]) -> None:
    if len(hypotheses) != len(references) or not references:
        raise DataError(
            f"{len(hypotheses)} translations cannot be scored against {len(references)} "
            "references: there must be one reference for each, and at least one"
        )
