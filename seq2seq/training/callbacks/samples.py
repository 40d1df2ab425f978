"""Samples of validations: sentences go to `<run>/samples.jsonl`, figures to the trackers."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any

from seq2seq.data.corpus import Pair
from seq2seq.evaluation.metrics import chrf_scores, length_ratio
from seq2seq.files import replace_text
from seq2seq.inference.text.fallback import degenerate
from seq2seq.inference.translation import Translation
from seq2seq.report.run import SAMPLES, read_samples
from seq2seq.text import evenly
from seq2seq.training.callbacks import Callback
from seq2seq.training.trainer import Trainer
from seq2seq.training.validation import Validation

log = logging.getLogger(__name__)


class Samples(Callback):
    """Keeps sentences of each validation, and logs figures about its translations.

    When a resumed run repeats a validation, its new line replaces the old one. So the file is the
    same as that of a run that never stopped.

    Args:
        count: number of fixed sentences, and of worst ones; 0 = none.

    Attributes:
        lines: lines of the file up to the last validation.
    """

    def __init__(self, run_dir: Path, count: int, validation: Validation):
        self.run_dir, self.count, self.validation = run_dir, count, validation
        words = [len(source.split()) for source, _ in validation.pairs]
        self.rows = evenly(sorted(range(len(words)), key=words.__getitem__), count)
        self.lines: list[dict[str, Any]] = []

    def on_train_start(self, trainer: Trainer) -> None:
        with suppress(OSError):  # `keep` will say so
            found = read_samples(self.run_dir) if self.count else []
            self.lines = [line for line in found if line["step"] <= trainer.step]

    def on_validation_end(self, trainer: Trainer) -> None:
        pairs, found = self.validation.pairs, self.validation.translations
        hypotheses, references = [str(one) for one in found], [target for _, target in pairs]
        chrf, chrf_of_each = chrf_scores(hypotheses, references)
        figures = decode_figures(pairs, found, self.validation.seconds)
        ratio = length_ratio(hypotheses, references)
        trainer.log({"val/chrf": chrf, "val/length_ratio": ratio, **figures})
        if self.count:
            self.keep(trainer.step, chrf_of_each)

    def keep(self, step: int, chrf: Sequence[float]) -> None:
        """Write the file with a line for this step, given the chrF2 of each sentence.

        Existing lines of this step and of later ones are removed: the run was resumed before them.
        """
        worst = sorted(range(len(chrf)), key=lambda row: (chrf[row], row))[: self.count]
        pairs, found = self.validation.pairs, self.validation.translations
        fixed, lowest = (
            [sentence(row, pairs[row], found[row], chrf[row]) for row in rows]
            for rows in (self.rows, worst)
        )
        bleu = round(self.validation.latest, 4)
        latest = {"step": step, "bleu": bleu, "sentences": fixed, "worst": lowest}
        try:
            earlier = [line for line in read_samples(self.run_dir) if line["step"] < step]
            self.lines = [*earlier, latest]
            text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in self.lines)
            replace_text(self.run_dir / SAMPLES, text)
        except OSError as error:  # no reason to fail the run
            log.warning("the samples of step %d could not be kept: %s", step, error)


def sentence(row: int, pair: Pair, found: Translation, chrf: float) -> dict[str, Any]:
    """Return one sentence in the form that the file stores."""
    return {
        "index": row,
        "source": pair[0],
        "reference": pair[1],
        "hypothesis": found.text,
        "score": None if found.score is None else round(found.score, 4),
        "chrf": round(chrf, 2),
        "tokens": found.tokens,
        "token_log_probs": [round(score, 4) for score in found.token_scores],
    }


def decode_figures(
    pairs: Sequence[Pair], found: Sequence[Translation], seconds: float
) -> dict[str, float]:
    """Return figures on the search of the validation set: speed, log probability, faults.

    Args:
        seconds: from the start until all processes had translated.
    """
    wrong = sum(bool(degenerate(source, str(one)))
                for (source, _), one in zip(pairs, found, strict=True))  # fmt: skip
    token_scores = list(chain.from_iterable(one.token_scores for one in found))
    sentences, seconds = max(1, len(found)), max(seconds, 1e-9)
    return {
        "decode/sentences_per_second": len(found) / seconds,
        "decode/tokens_per_second": len(token_scores) / seconds,
        "decode/log_prob_per_token": sum(token_scores) / max(1, len(token_scores)),
        "decode/degenerate_share": wrong / sentences,
        "decode/unfinished_share": sum(not one.finished for one in found) / sentences,
    }
