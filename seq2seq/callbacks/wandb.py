"""What W&B shows of a run beside its curves: texts, pictures, histograms, data, the model.

All of it is logged as rows of their own beside the curves, with the step as
`trainer/global_step`; W&B's own step counts rows.
"""

from __future__ import annotations

import json
import logging
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from torch.distributed.fsdp import FSDPModule

from seq2seq.callbacks import Callback
from seq2seq.callbacks.gradient_norms import GradientNorms
from seq2seq.callbacks.samples import Samples
from seq2seq.decoding.forced import forced_attention
from seq2seq.disk import replace_text
from seq2seq.html_page import html_page, visible
from seq2seq.inference.bundle_folder import read_config
from seq2seq.model.translation_model import TranslationModel
from seq2seq.text import normaliser
from seq2seq.training.provenance import Provenance
from seq2seq.training.samples_file import read_samples
from seq2seq.training.trackers import STEP

if TYPE_CHECKING:
    from seq2seq.training.trainer import Trainer

log = logging.getLogger(__name__)

COLUMNS = ["step", "index", "source", "reference", "hypothesis", "score", "chrF", "confidence"]
BINS = 32  # of a histogram
DARKEST = 0.6  # how much of the colour shows below a token: words can be read, light and dark
PICTURES = 20  # of attention that a validation logs, at most


class WandbMedia(Callback):
    """Logs to W&B what numbers alone do not show. Stands behind `Samples`, and before
    `GradientNorms`, which forgets at the end of a validation.

    What goes wrong with one of its parts is said once, and training goes on without that part.

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
        self._in_table = 0  # validations in the last table of the fixed sentences
        self._pictures: list[Any] = []  # of these, at the last validation
        self._on = not run.disabled
        self._warned: set[str] = set()

    def on_train_start(self, trainer: Trainer) -> None:
        self._safely("facts of the start", self._log_start, trainer)

    def on_validation_end(self, trainer: Trainer) -> None:
        self._safely("histograms", self._log_histograms, trainer)
        self._safely("sentences and pictures", self._log_samples, trainer)

    def _safely(self, part: str, work: Callable[..., None], *arguments: Any) -> None:
        if not self._on:
            return
        try:
            with _staging(self.run_dir / "wandb"):
                work(*arguments)
        except ConnectionError as error:  # its process was killed
            self._on = False
            log.warning("W&B gets no more tables and pictures of this run: %r", error)
        except Exception as error:  # whatever is wrong with W&B, training goes on
            if part not in self._warned:
                log.warning("W&B did not get all %s: %r (said once)", part, error)
            self._warned.add(part)

    def _log(self, trainer: Trainer, values: Mapping[str, Any]) -> None:
        self.run.log({**values, STEP: max(0, trainer.step - 1)})  # trackers count from 0

    def _log_start(self, trainer: Trainer) -> None:
        import wandb

        provenance = Provenance.read(self.run_dir)
        if provenance is not None:
            start = provenance.starts[-1]
            facts = {
                "revision": start.revision,
                "versions": start.versions,
                "command": start.command,
                "device": start.device,
                "attention": self.attention,
                "parameters": provenance.parameters,
                "data_fingerprint": provenance.data,
            }
            self.run.config.update({"run": facts}, allow_val_change=True)
        if trainer.step > 0:
            return  # the rest was logged when the run began
        each = trainer.model.named_parameters()  # a shared one where it is first
        rows = [[name, str(tuple(p.shape)), p.numel()] for name, p in each]
        found: dict[str, Any] = {
            "model/parameters": wandb.Table(["parameter", "shape", "numbers"], rows)
        }
        if self.data_report is not None and self.data_report.exists():
            found["data/report"] = wandb.Html(self.data_report, inject=False)
        self._log(trainer, found)

    def _log_histograms(self, trainer: Trainer) -> None:
        validation = self.samples.validation
        numbers: dict[str, Sequence[float]] = {
            "val/hypothesis_words": [len(one.text.split()) for one in validation.translations],
            "val/reference_words": [len(target.split()) for _, target in validation.pairs],
            "decode/token_probability": [
                math.exp(score) for one in validation.translations for score in one.token_scores
            ],
            **{
                f"optim/grad_norm_histogram/{name}": norms
                for name, norms in self.norms.since_validation.items()
            },
        }
        found = {
            name: histogram(finite)
            for name, values in numbers.items()
            if (finite := [value for value in values if math.isfinite(value)])
        }
        self._log(trainer, found)

    def _log_samples(self, trainer: Trainer) -> None:
        import wandb

        entry = self.samples.latest
        if entry is None:
            return
        sentences, step = entry["sentences"], entry["step"]
        drawn = self._attention(sentences, trainer.model)
        self._pictures = pictures = [
            None if one is None else wandb.Image(one, caption=caption)
            for one, (_, caption) in zip(same_size([x for x, _ in drawn]), drawn, strict=True)
        ]
        worst = wandb.Table([*COLUMNS], [row(step, sentence) for sentence in entry["worst"]])
        media = {
            "samples/worst": worst,
            "samples/attention": [picture for picture in pictures if picture is not None],
            "samples/confidence": wandb.Html(confidence_page(step, sentences), inject=False),
        }
        # The file may lack the last line, if the disk is full.
        lines = [old for old in read_samples(self.run_dir) if old["step"] < step] + [entry]
        # All rows again, but only when a tenth is new: else files would grow with the square.
        if 10 * (len(lines) - self._in_table) >= self._in_table:
            media["samples/fixed"] = self._fixed_table(lines)
        self._log(trainer, media)

    def _fixed_table(self, lines: Sequence[Mapping[str, Any]]) -> Any:
        """All validations so far, with the pictures of the last one."""
        import wandb

        self._in_table = len(lines)
        per_line = max(1, len(lines[-1]["sentences"]))
        lines = lines[-max(1, wandb.Table.MAX_ROWS // per_line) :]  # W&B would drop the latest
        table = wandb.Table([*COLUMNS, "attention"])
        for line in lines:
            pictures = self._pictures if line is lines[-1] else [None] * len(line["sentences"])
            for sentence, picture in zip(line["sentences"], pictures, strict=True):
                table.add_data(*row(line["step"], sentence), picture)
        return table

    def _attention(
        self, sentences: Sequence[Mapping[str, Any]], model: TranslationModel
    ) -> list[tuple[np.ndarray | None, str]]:
        """A picture of the head that aligns best for sentences that the model can read; captions.

        Of many sentences only some have one, from short to long.
        """
        from seq2seq.inference.head_picture import LONGEST, head_picture  # matplotlib loads slowly

        validation = self.samples.validation
        found: list[tuple[np.ndarray | None, str]] = [(None, "")] * len(sentences)
        if isinstance(model, FSDPModule):  # it would have to be gathered
            return found
        read = normaliser(validation.normalise)
        source, target = validation.vocabularies.source, validation.vocabularies.target
        ids = list(zip(
            source.encode([read(one["source"]).strip() for one in sentences]),
            target.encode([one["hypothesis"] for one in sentences]),
            strict=True,
        ))  # fmt: skip
        limit = model.config.max_length
        rows = [i for i, both in enumerate(ids) if all(0 < len(side) < limit for side in both)]
        rows = rows[:: math.ceil(len(rows) / PICTURES) or 1]
        weights = forced_attention(model, [ids[i] for i in rows], validation.head)
        for i, weights_TS in zip(rows, weights, strict=True):
            labels = ([*v.tokens(side), "</s>"]
                      for v, side in zip((source, target), ids[i], strict=True))  # fmt: skip
            cut = f" (first {LONGEST} tokens)" if max(weights_TS.shape) > LONGEST else ""
            found[i] = head_picture(weights_TS, *labels), visible(sentences[i]["source"]) + cut
        return found

    def finish(self, summary: Mapping[str, Any], upload: bool) -> None:
        """Log how the run ended, and its bundle as an artifact; then tell W&B that it is over.

        Args:
            summary: as in `<run>/summary.json`.
            upload: whether the bundle goes to W&B, or into its offline files.
        """
        self._safely("last rows of the table", self._log_last_rows)
        self._safely("results", self._log_results, summary)
        if upload:
            self._safely("files of the bundle", self._log_bundle)
        try:
            self.run.finish()
        except Exception as error:  # such as a time-out: the server has gone
            log.warning(
                "W&B did not end well: %r. To upload what is on the disk: "
                "wandb sync %s/wandb/*run-*",
                *(error, self.run_dir),
            )

    def _log_last_rows(self) -> None:
        lines = read_samples(self.run_dir)
        if self._in_table and len(lines) > self._in_table:
            values = {"samples/fixed": self._fixed_table(lines), STEP: lines[-1]["step"] - 1}
            self.run.log(values)

    def _log_results(self, summary: Mapping[str, Any]) -> None:
        self.run.summary.update({f"result/{name}": value for name, value in summary.items()})

    def _log_bundle(self) -> None:
        """Log the bundle, unless an earlier start of the run has logged this very one."""
        import wandb

        folder, card = self.run_dir / "bundle", self.run_dir / "bundle" / "README.md"
        if not (folder / "config.json").exists():
            return
        made = read_config(folder / "config.json").training
        metadata = {"step": made["step"], "scores": made["scores"]}
        noted = self.run_dir / "wandb" / "bundle.json"
        if noted.exists() and json.loads(noted.read_text(encoding="utf-8")) == metadata:
            return
        artifact = wandb.Artifact(
            f"bundle-{self.run.id}",
            "model",
            description=card.read_text(encoding="utf-8") if card.exists() else None,
            metadata=metadata,
        )
        artifact.add_dir(str(folder), skip_cache=True)
        self.run.log_artifact(artifact, aliases=["best"])
        replace_text(noted, json.dumps(metadata))


def histogram(values: Sequence[float]) -> Any:
    """Of finite numbers; in one bin if they differ by less than 32 bins can show."""
    import wandb

    try:
        return wandb.Histogram(values, num_bins=BINS)
    except ValueError:
        ends = [min(values), max(values)]
        return wandb.Histogram(np_histogram=(np.array([len(values)]), np.array(ends)))


def row(step: int, sentence: Mapping[str, Any]) -> list[Any]:
    """Of a table of sentences; confidence is the geometric mean of its tokens' probabilities."""
    scores = sentence["token_log_probs"][: len(sentence["tokens"])]  # without the end mark
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
    """Translations whose tokens are the more orange the less sure the model was of them."""
    body = [f"<p>Step {step:,}. The more orange a token, the less likely the model found it.</p>"]
    for sentence in sentences:
        # The last score may be that of the end mark, which is no token.
        tokens = "".join(
            f'<span title="{math.exp(score):.1%}" style="background: rgb(198 86 0 / '
            f'{DARKEST * (1 - math.exp(score)):.2f})">{escape(visible(token))}</span>'
            for token, score in zip(sentence["tokens"], sentence["token_log_probs"], strict=False)
        )
        body.append(f"<p>{escape(visible(sentence['source']))}<br><b>{tokens}</b></p>")
    return html_page("Confidence", body, "b { color: var(--ink); }")


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
