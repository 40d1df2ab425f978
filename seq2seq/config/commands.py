"""All settings of each command that Hydra composes (`configs/<command>.yaml`)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import field
from typing import Any

from seq2seq.config.checked import Checked, group, setting
from seq2seq.config.checkpoint import CheckpointConfig
from seq2seq.config.cleaning import CleaningConfig
from seq2seq.config.data import DataConfig, EngineConfig
from seq2seq.config.decode import DecodeChanges, DecodeConfig
from seq2seq.config.logger import LoggerConfig
from seq2seq.config.model import ModelConfig, TransformerConfig
from seq2seq.config.optim import OptimConfig
from seq2seq.config.rules import (
    headings_are_english,
    layers_can_be_compiled,
    schedule_fits_run,
    sentences_fit_batches,
    sharded_weights_suffice,
    vocabularies_fit_embeddings,
)
from seq2seq.config.tokenizer import TokenizerConfig
from seq2seq.config.trainer import TrainerConfig

# Settings of `evaluate` that do nothing if it scores translations from a file.
OF_MODELS = ("data", "split", "decode", "precision", "device", "training_text")


def device_is_named(device: str) -> Iterator[str]:
    """Check the form of a device name; loading the model shows whether the machine has it."""
    if not re.fullmatch(r"auto|cpu|cuda(:\d+)?", device):
        yield f"device={device} is not known: give auto, cpu, cuda or cuda:NUMBER"


class TrainConfig(Checked):
    """All settings of `train`."""

    model: ModelConfig = group(TransformerConfig)
    data: DataConfig = group(DataConfig)
    cleaning: CleaningConfig = group(CleaningConfig)
    tokenizer: TokenizerConfig = group(TokenizerConfig)
    optim: OptimConfig = group(OptimConfig)
    decode: DecodeConfig = group(DecodeConfig)
    trainer: TrainerConfig = group(TrainerConfig)
    checkpoint: CheckpointConfig = group(CheckpointConfig)
    logger: LoggerConfig = group(LoggerConfig)
    seed: int = setting(1, "seed of all random draws", at_least=0, at_most=2**32 - 1)
    run_dir: str | None = setting(None, "folder of the run; null = runs/<data>-<model>-<time>")
    resume: str | None = setting(None, "folder of a run to continue")
    init_from: str | None = setting(
        None, "model whose weights training starts from: a run, a bundle, general (shipped) or "
        "hf:OWNER/NAME"
    )  # fmt: skip
    dry_run: bool = setting(False, "build everything, measure what the run would take, and stop")

    def rules(self) -> Iterator[str]:
        yield from sentences_fit_batches(self.data, self.model)
        yield from vocabularies_fit_embeddings(self.tokenizer, self.model)
        yield from layers_can_be_compiled(self.trainer, self.model)
        yield from schedule_fits_run(self.optim, self.trainer, self.data)
        yield from sharded_weights_suffice(self.trainer, self.optim, self.checkpoint)
        yield from headings_are_english(self.data, self.cleaning)


class PrepareConfig(Checked):
    """All settings of `prepare`."""

    data: DataConfig = group(DataConfig)
    cleaning: CleaningConfig = group(CleaningConfig)
    tokenizer: TokenizerConfig = group(TokenizerConfig)
    prepare: EngineConfig = group(EngineConfig)

    def rules(self) -> Iterator[str]:
        yield from headings_are_english(self.data, self.cleaning)


class AverageConfig(Checked):
    """All settings of `average`."""

    run: str | None = setting(None, "run that was trained with checkpoint.average=N")
    average: int = setting(5, "number of the run's snapshots to average", at_least=2)
    by: str = setting(
        "last", "which snapshots: the last ones, or those with the best validation BLEU",
        choices=("last", "best"),
    )  # fmt: skip
    inputs: list[str] = setting([], "bundles or runs to average, instead of snapshots")
    output: str | None = setting(None, "folder of the new bundle")

    def rules(self) -> Iterator[str]:
        if (self.run is None) == (not self.inputs):
            yield (
                "what shall be averaged? Give either run=FOLDER (a run trained with "
                "checkpoint.average=N) or inputs=[FOLDER,FOLDER,...] (bundles or runs)"
            )
        if len(self.inputs) == 1:
            yield f"inputs=[{self.inputs[0]}] is one model only: an average needs two and more"
        if self.output is None:
            yield "output= is missing: name the folder of the new bundle, output=runs/averaged"


class EvaluateConfig(Checked):
    """All settings of `evaluate`, which scores a model on a test set, or given translations
    (`hypothesis` and `reference`)."""

    bundle: str | None = setting(
        None, "model that translates: folder of a run or bundle, general (shipped), hf:OWNER/NAME"
    )
    data: DataConfig = group(DataConfig)
    split: str = setting("test", "part of the corpus", choices=("train", "val", "test"))
    decode: Any = field(  # all null
        default_factory=DecodeChanges,
        metadata={"meaning": "Search settings that differ from those of the model's validation"},
    )
    precision: str | None = setting(
        None, "precision of the model; null = float32, as in validation"
    )
    device: str = setting("auto", "where the model runs: auto, cpu, cuda or cuda:1")
    hypothesis: str | None = setting(
        None, "given translations to score: a text file, compressed or not"
    )
    reference: str | None = setting(None, "reference translations, one for each line of hypothesis")
    source: str | None = setting(None, "source sentences; needed for breakdowns and faults")
    output: str | None = setting(
        None, "folder of the results, null = <run>/evaluation; for given translations a file, "
        "FILE.json",
    )  # fmt: skip
    language: str | None = setting(
        None, "language of the translations; null = that of the model, or fr"
    )
    training_text: Any = setting(
        "auto", "training text of the model to compare the test set with, if it is in the cache: "
        "auto = if it is not large, all = of any size, none",
    )  # fmt: skip

    def rules(self) -> Iterator[str]:
        files = [name for name in ("hypothesis", "reference", "source") if getattr(self, name)]
        if self.bundle is None and not files:
            yield (
                "bundle= is missing: name the folder of a run or a bundle, for example "
                "bundle=runs/demo; or translations to score, hypothesis=FILE reference=FILE"
            )
        elif self.bundle is not None and files:
            yield (
                f"bundle= translates a test set, and {files[0]}= is for translations that are "
                "there: give one of them"
            )
        elif files and not {"hypothesis", "reference"} <= set(files):
            yield f"{files[0]}= alone cannot be scored: give hypothesis=FILE reference=FILE"
        record = str(self.output or "").endswith(".json")
        if self.output is not None and record != (self.bundle is None):
            kind = "a file, output=FILE.json" if self.bundle is None else "a folder, output=FOLDER"
            yield f"output={self.output}: the results of this go to {kind}"
        if self.training_text not in ("auto", "all", "none"):
            yield (
                f"training_text={self.training_text} is not known: give auto, all or none; "
                "seq2seq prepare compares a test set with other text (docs/how-to/evaluate.md)"
            )
        yield from device_is_named(self.device)
        if ".." in self.data.name.split("/"):
            yield f"data.name={self.data.name} names a folder of results: leave .. out"

    def idle(self, given: Iterable[str]) -> Iterator[str]:
        """Yield one sentence for each given setting of a model, if there is none."""
        for argument in given if self.hypothesis and self.bundle is None else ():
            if argument.partition("=")[0].partition(".")[0] in OF_MODELS:
                yield f"{argument} does nothing without bundle=FOLDER: leave it out"
