"""What W&B shows of a run beside its curves: texts, pictures, histograms, data, the model.

All of it is logged as rows of their own beside Lightning's, with the step as
`trainer/global_step`; W&B's own step counts rows.
"""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from html import escape
from pathlib import Path
from typing import Any

import lightning as L
import numpy as np
from torch.distributed.fsdp import FSDPModule

from seq2seq.callbacks.gradient_norms import GradientNorms
from seq2seq.callbacks.samples import Samples
from seq2seq.decoding.forced_attention import forced_attention
from seq2seq.html_page import html_page, visible
from seq2seq.inference.bundle import read_config
from seq2seq.model.translation_model import TranslationModel
from seq2seq.text import normaliser
from seq2seq.training.origin import Origin
from seq2seq.training.samples_file import read_samples
from seq2seq.training.task import TranslationTask

log = logging.getLogger(__name__)

STEP = "trainer/global_step"  # what Lightning calls it
COLUMNS = ["step", "index", "source", "reference", "hypothesis", "score", "chrF", "confidence"]
BINS = 32  # of a histogram


class WandbMedia(L.Callback):
    """Logs to W&B what numbers alone do not show. Stands behind `Samples` and before saving.

    Whatever goes wrong is said once, and training goes on without.

    Args:
        run: that of W&B.
        run_dir: the run's folder.
        samples: sentences of each validation.
        norms: of gradients since the last validation.
        attention: kernels that attention runs on, in words.
        data_report: the page on the prepared data; None = there is none.
    """

    def __init__(
        self,
        run: Any,
        run_dir: Path,
        samples: Samples,
        norms: GradientNorms,
        attention: str = "",
        data_report: Path | None = None,
    ):
        self.run, self.run_dir, self.samples, self.norms = run, run_dir, samples, norms
        self.attention, self.data_report = attention, data_report
        self._table: Any = None  # of the fixed sentences; it grows
        self._on = not run.disabled

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        if self._on:
            self._safely(self._log_start, trainer, pl_module)

    def on_validation_epoch_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        if self._on:
            self._safely(self._log_validation, trainer, pl_module)

    def _safely(self, work: Callable[..., None], *arguments: Any) -> None:
        try:
            with _staging(self.run_dir / "wandb"):
                work(*arguments)
        except Exception as error:  # whatever is wrong with W&B, training goes on
            self._on = False
            log.warning("W&B gets no more tables and pictures of this run: %r", error)

    def _log(self, trainer: L.Trainer, values: Mapping[str, Any]) -> None:
        self.run.log({**values, STEP: max(0, trainer.global_step - 1)})  # Lightning counts from 0

    def _log_start(self, trainer: L.Trainer, task: TranslationTask) -> None:
        import wandb

        origin = Origin.read(self.run_dir)
        if origin is not None:
            start = origin.starts[-1]
            facts = {
                "revision": start.revision,
                "versions": start.versions,
                "command": start.command,
                "device": start.device,
                "attention": self.attention,
                "parameters": origin.parameters,
                "data_fingerprint": origin.data,
            }
            self.run.config.update({"run": facts}, allow_val_change=True)
        if trainer.global_step > 0:
            return  # the rest was logged when the run began
        each = task.model.named_parameters()  # a shared one where it is first
        rows = [[name, str(tuple(p.shape)), p.numel()] for name, p in each]
        found: dict[str, Any] = {
            "model/parameters": wandb.Table(["parameter", "shape", "numbers"], rows)
        }
        if self.data_report is not None:
            found["data/report"] = wandb.Html(self.data_report, inject=False)
        self._log(trainer, found)

    def _log_validation(self, trainer: L.Trainer, task: TranslationTask) -> None:
        import wandb

        bleu = self.samples.bleu
        numbers: dict[str, list[int] | list[float]] = {
            "val/hypothesis_words": [len(one.text.split()) for one in bleu.translations],
            "val/reference_words": [len(target.split()) for _, target in bleu.pairs],
            "decode/token_probability": [
                math.exp(score) for one in bleu.translations for score in one.token_scores
            ],
            **{
                f"optim/grad_norms/{name}": norms
                for name, norms in self.norms.since_validation.items()
            },
        }
        media: dict[str, Any] = {
            name: wandb.Histogram(finite, num_bins=BINS)
            for name, values in numbers.items()
            if (finite := [value for value in values if math.isfinite(value)])
        }
        entry = self.samples.latest
        if entry is not None:
            media |= self._sample_media(entry, task.model)
        self._log(trainer, media)

    def _sample_media(self, entry: Mapping[str, Any], model: TranslationModel) -> dict[str, Any]:
        import wandb

        sentences, step = entry["sentences"], entry["step"]
        pictures = [
            None if pixels is None else wandb.Image(pixels, caption=sentence["source"])
            for pixels, sentence in zip(
                same_size(self._attention(sentences, model)), sentences, strict=True
            )
        ]
        if self._table is None:
            self._table = wandb.Table([*COLUMNS, "attention"], log_mode="INCREMENTAL")
            if not self.run.resumed:  # else W&B itself knows the rows of before
                for old in read_samples(self.run_dir):
                    for sentence in old["sentences"] if old["step"] < step else ():
                        self._table.add_data(*row(old["step"], sentence), None)
        for sentence, picture in zip(sentences, pictures, strict=True):
            self._table.add_data(*row(step, sentence), picture)
        worst = wandb.Table([*COLUMNS], [row(step, sentence) for sentence in entry["worst"]])
        return {
            "samples/fixed": self._table,
            "samples/worst": worst,
            "samples/attention": [picture for picture in pictures if picture is not None],
            "samples/confidence": wandb.Html(confidence_page(step, sentences), inject=False),
        }

    def _attention(
        self, sentences: Sequence[Mapping[str, Any]], model: TranslationModel
    ) -> list[np.ndarray | None]:
        """A picture of the head that aligns best for each sentence, if the model can read it."""
        from seq2seq.inference.head_picture import head_picture  # matplotlib loads slowly

        bleu = self.samples.bleu
        if isinstance(model, FSDPModule):  # it would have to be gathered
            return [None] * len(sentences)
        read = normaliser(bleu.normalise)
        source, target = bleu.vocabularies.source, bleu.vocabularies.target
        ids = list(zip(
            source.encode([read(one["source"]).strip() for one in sentences]),
            target.encode([one["hypothesis"] for one in sentences]),
            strict=True,
        ))  # fmt: skip
        limit = model.config.max_length
        rows = [i for i, both in enumerate(ids) if all(0 < len(side) < limit for side in both)]
        found: list[np.ndarray | None] = [None] * len(sentences)
        weights = forced_attention(model, [ids[i] for i in rows], bleu.head)
        for i, weights_TS in zip(rows, weights, strict=True):
            labels = ([*v.tokens(side), "</s>"]
                      for v, side in zip((source, target), ids[i], strict=True))  # fmt: skip
            found[i] = head_picture(weights_TS, *labels)
        return found

    def finish(self, summary: Mapping[str, Any], upload: bool) -> None:
        """Log how the run ended, and its bundle as an artifact; then tell W&B that it is over.

        Args:
            summary: as in `<run>/summary.json`.
            upload: whether the bundle goes to W&B, or into its offline files.
        """
        self._safely(self._log_end, summary, upload)
        self.run.finish()

    def _log_end(self, summary: Mapping[str, Any], upload: bool) -> None:
        import wandb

        self.run.summary.update({f"result/{name}": value for name, value in summary.items()})
        folder = self.run_dir / "bundle"
        if not upload or self.run.disabled or not (folder / "config.json").exists():
            return
        made = read_config(folder / "config.json").training
        artifact = wandb.Artifact(
            f"bundle-{self.run.id}",
            "model",
            description=(folder / "README.md").read_text(encoding="utf-8"),
            metadata={"step": made["step"], "scores": made["scores"]},
        )
        for file in sorted(folder.iterdir()):
            artifact.add_file(str(file), skip_cache=True)
        self.run.log_artifact(artifact, aliases=["best"])


def row(step: int, sentence: Mapping[str, Any]) -> list[Any]:
    """Of a table of sentences; confidence is the geometric mean of its tokens' probabilities."""
    scores = sentence["token_log_probs"]
    confidence = round(math.exp(sum(scores) / len(scores)), 4) if scores else None
    return [
        step,
        *(sentence[key] for key in ("index", "source", "reference", "hypothesis", "score", "chrf")),
        confidence,
    ]


def same_size(pictures: Sequence[np.ndarray | None]) -> list[np.ndarray | None]:
    """Pictures with as much white below and beside them as W&B needs to show them in one row."""
    sizes = [picture.shape for picture in pictures if picture is not None]
    height, width = (max((size[axis] for size in sizes), default=0) for axis in (0, 1))
    return [
        None if one is None else np.pad(
            one, ((0, height - one.shape[0]), (0, width - one.shape[1]), (0, 0)),
            constant_values=255,
        )
        for one in pictures
    ]  # fmt: skip


def confidence_page(step: int, sentences: Sequence[Mapping[str, Any]]) -> str:
    """Translations whose tokens are the darker the less sure the model was of them."""
    body = [f"<p>Step {step:,}. The darker a token, the less likely the model found it.</p>"]
    for sentence in sentences:
        # The last score may be that of the end mark, which is no token.
        tokens = "".join(
            f'<span title="{math.exp(score):.1%}" style="background: '
            f'rgb(198 86 0 / {1 - math.exp(score):.2f})">{escape(visible(token))}</span>'
            for token, score in zip(sentence["tokens"], sentence["token_log_probs"], strict=False)
        )
        body.append(f"<p>{escape(visible(sentence['source']))}<br><b>{tokens}</b></p>")
    return html_page("Confidence", body)


@contextmanager
def _staging(folder: Path) -> Iterator[None]:
    """What W&B copies until it is uploaded waits in this folder, and not in the user's home."""
    name = "WANDB_DATA_DIR"
    if name in os.environ:  # the user knows a better place
        yield
        return
    os.environ[name] = str(folder.absolute())
    try:
        yield
    finally:
        del os.environ[name]
