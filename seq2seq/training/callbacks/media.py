"""Media for trackers, beside the curves: texts, pictures, histograms, the report of the data."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torch.distributed.fsdp import FSDPModule

from seq2seq import trackers
from seq2seq.decoding.forced import forced_attention
from seq2seq.html_page import render, visible
from seq2seq.model.translation_model import TranslationModel
from seq2seq.text import evenly, normaliser
from seq2seq.trackers import Histogram, Picture, Table
from seq2seq.training.callbacks import Callback
from seq2seq.training.callbacks.gradient_norms import GradientNorms
from seq2seq.training.callbacks.samples import Samples
from seq2seq.training.trainer import Trainer

COLUMNS = ["step", "index", "source", "reference", "hypothesis", "score", "chrF", "confidence"]
ROWS = 1000  # most rows of the table of fixed sentences; each validation logs all of it
PICTURES = 20  # most pictures of attention that a validation logs


class Media(Callback):
    """Sends texts, pictures and histograms to the trackers. Must come after `Samples`, and before
    `GradientNorms`, which forgets its norms at the end of a validation.

    Args:
        data_report: the page on the prepared data; the file may be missing.
    """

    def __init__(self, samples: Samples, norms: GradientNorms, data_report: Path):
        self.samples, self.norms, self.data_report = samples, norms, data_report

    def on_train_start(self, trainer: Trainer) -> None:
        if trainer.step > 0:
            return  # it was logged when the run began
        for tracker in trainer.trackers:
            tracker.log_media("parameters", lambda: parameter_table(trainer.model), 0)
            if self.data_report.exists():
                tracker.log_media("the report of the data", self._data, 0)

    def on_validation_end(self, trainer: Trainer) -> None:
        step = trainer.step - 1  # trackers count from 0
        for tracker in trainer.trackers:
            tracker.log_media("histograms", self._histograms, step)
            if self.samples.lines:
                tracker.log_media(
                    "sentences and pictures", lambda: self._sentences(trainer.model), step
                )

    def _data(self) -> dict[str, trackers.Media]:
        return {"data/report": self.data_report.read_text(encoding="utf-8")}

    def _histograms(self) -> dict[str, trackers.Media]:
        validation = self.samples.validation
        scores = [score for one in validation.translations for score in one.token_scores]
        numbers: dict[str, list[float]] = {
            "val/hypothesis_words": [len(one.text.split()) for one in validation.translations],
            "val/reference_words": [len(target.split()) for _, target in validation.pairs],
            "decode/token_probability": [math.exp(score) for score in scores],
        }
        for name, norms in self.norms.since_validation.items():
            numbers[f"optim/grad_norm_histogram/{name}"] = norms
        return {name: Histogram(values) for name, values in numbers.items() if values}

    def _sentences(self, model: TranslationModel) -> dict[str, trackers.Media]:
        *earlier, latest = self.samples.lines
        step, sentences = latest["step"], latest["sentences"]
        pictures = self._attention(sentences, model)
        fixed = [[*row(line["step"], one), None] for line in earlier for one in line["sentences"]]
        fixed += [
            [*row(step, one), picture] for one, picture in zip(sentences, pictures, strict=True)
        ]
        found: dict[str, trackers.Media] = {
            "samples/fixed": Table([*COLUMNS, "attention"], fixed[-ROWS:]),
            "samples/worst": Table(COLUMNS, [row(step, one) for one in latest["worst"]]),
            "samples/confidence": confidence_page(step, sentences),
        }
        if drawn := [picture for picture in pictures if picture is not None]:
            found["samples/attention"] = drawn
        return found

    def _attention(
        self, sentences: Sequence[Mapping[str, Any]], model: TranslationModel
    ) -> list[Picture | None]:
        """Draw the attention of the head that aligns best, for sentences that the model can read.

        If there are many sentences, only some of them get a picture, from short to long.
        """
        from seq2seq.inference import attention_figure  # matplotlib loads slowly

        validation, longest = self.samples.validation, attention_figure.LONGEST
        both = validation.vocabularies
        found: list[Picture | None] = [None] * len(sentences)
        if isinstance(model, FSDPModule):  # its weights would have to be gathered
            return found
        pairs = [(one["source"], one["hypothesis"]) for one in sentences]
        ids = both.encode_pairs(pairs, normaliser(validation.normalise))
        limit = model.config.max_length
        rows = [i for i, pair in enumerate(ids) if all(0 < len(side) < limit for side in pair)]
        rows = evenly(rows, PICTURES)
        weights = forced_attention(model, [ids[i] for i in rows], validation.head)
        for i, weights_TS in zip(rows, weights, strict=True):
            source, target = both.source.tokens(ids[i][0]), both.target.tokens(ids[i][1])
            pixels = attention_figure.head_picture(weights_TS, [*source, "</s>"], [*target, "</s>"])
            cut = f" (first {longest} tokens)" if max(weights_TS.shape) > longest else ""
            found[i] = Picture(pixels, visible(sentences[i]["source"]) + cut)
        return found


def parameter_table(model: TranslationModel) -> dict[str, trackers.Media]:
    """Make a table of each parameter's name, shape and size; a shared one is where it is first."""
    rows = [[name, str(tuple(p.shape)), p.numel()] for name, p in model.named_parameters()]
    return {"model/parameters": Table(["parameter", "shape", "numbers"], rows)}


def row(step: int, sentence: Mapping[str, Any]) -> list[Any]:
    """Make a row of a table of sentences; confidence = geometric mean of token probabilities."""
    scores = sentence["token_log_probs"][: len(sentence["tokens"])]  # without the end mark
    confidence = round(math.exp(sum(scores) / len(scores)), 4) if scores else None
    return [
        step,
        *(sentence[key] for key in ("index", "source", "reference", "hypothesis", "score", "chrf")),
        confidence,
    ]


def confidence_page(step: int, sentences: Sequence[Mapping[str, Any]]) -> str:
    """Make a page of translations; a token is the more orange the less sure the model was."""
    # The last score may be that of the end mark, which is no token.
    found = [
        (one["source"], zip(one["tokens"], map(math.exp, one["token_log_probs"]), strict=False))
        for one in sentences
    ]
    return render("confidence.html", title="Confidence", step=step, sentences=found)
