"""Decodes the validation set for real, logs its BLEU, and keeps the best model as a bundle."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

import lightning as L
import torch

from seq2seq.config import DecodeConfig
from seq2seq.data.corpus import Pair
from seq2seq.data.vocabularies import Vocabularies
from seq2seq.decoding.attention_head import AttentionHead
from seq2seq.errors import RunError
from seq2seq.evaluation.metrics import corpus_scores
from seq2seq.inference.bundle import Bundle
from seq2seq.inference.bundle_folder import read_config, target_steps
from seq2seq.inference.head_choice import choose_head
from seq2seq.inference.torch_engine import TorchEngine
from seq2seq.inference.translation import Translation
from seq2seq.inference.translator import Translator
from seq2seq.model.translation_model import TranslationModel
from seq2seq.text import normaliser
from seq2seq.training.stopping import Interrupted, StopRequest
from seq2seq.training.strategy import whole_model
from seq2seq.training.task import TranslationTask

log = logging.getLogger(__name__)

SAMPLES = 3  # translations shown in the log at each validation


class ValidationBleu(L.Callback):
    """Logs `val/bleu`, by the very code that `scripts/evaluate.py` runs, in full precision.

    When it is the best so far, `<run>/bundle` is written.

    Args:
        pairs: validation pairs.
        vocabularies: those of the model.
        decode: search settings.
        bundle_dir: where the best model goes.
        settings: the run's settings as a plain dict, kept in the bundle.
        normalise: what is done to a source before the model reads it.
        patience: validations without a better BLEU after which training stops; None = never.
        stop: knows of signals, which break off the search.
        length_ratio: target tokens per source token of the training corpus.

    Attributes:
        best, best_step: best BLEU so far, and after which step.
        latest: that of the last validation.
        worse: validations since the best.
        average: BLEU of the bundle, if it is an average of several steps.
        head: the attention of the bundle that aligns best.
        translations: those of the last validation, in the order of the pairs.
        signature: says how BLEU is computed.
        seconds: that the last search took all processes together.
    """

    def __init__(
        self,
        pairs: list[Pair],
        vocabularies: Vocabularies,
        decode: DecodeConfig,
        bundle_dir: Path,
        settings: dict[str, Any],
        normalise: Sequence[str] = (),
        patience: int | None = None,
        stop: StopRequest | None = None,
        length_ratio: float = 1.0,
    ):
        self.pairs, self.vocabularies, self.decode = pairs, vocabularies, decode
        self.bundle_dir, self.settings, self.normalise = bundle_dir, settings, list(normalise)
        self.patience, self.stop = patience, stop or StopRequest()
        self.best, self.best_step = float("-inf"), 0
        self.length_ratio = length_ratio
        self.latest, self.worse = float("-inf"), 0
        self.average = float("-inf")
        self.head = AttentionHead()
        self.translations: list[Translation] = []
        self.signature, self.seconds = "", 0.0

    def state_dict(self) -> dict[str, Any]:
        return {"best": self.best, "best_step": self.best_step, "worse": self.worse}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.best, self.best_step = state_dict["best"], state_dict["best_step"]
        self.worse = state_dict.get("worse", 0)  # which older checkpoints lack

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        if self.gives_up:  # the run goes on after its last validation, before its very end
            trainer.should_stop = True
        if (self.bundle_dir / "config.json").exists():
            bundle = read_config(self.bundle_dir / "config.json")
            self.head, made = bundle.alignment, bundle.training
            self.average = made["scores"]["BLEU"] if "averaged" in made else self.average

    @torch.inference_mode()
    def on_validation_epoch_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        assert isinstance(pl_module, TranslationTask)
        model = whole_model(pl_module.model)
        bleu, self.translations = self.score(trainer, model)
        pl_module.log("val/bleu", bleu, rank_zero_only=True)
        step = trainer.global_step
        log.info("step %d: validation BLEU %.2f (best %.2f)", step, bleu, max(bleu, self.best))
        each = zip(self.pairs, self.translations, strict=True)
        for (source, target), output in islice(each, SAMPLES):
            log.info("  %s\n    -> %s\n     = %s", source, output, target)
        self.latest, self.worse = bleu, self.worse + 1
        if bleu > self.best:
            self.best, self.best_step, self.worse = bleu, step, 0
            if bleu > self.average:
                self.ship(trainer, model, step, bleu)
        if self.gives_up and step < trainer.max_steps:
            log.info("stopping: %d validations without better BLEU (trainer.patience)", self.worse)
            trainer.should_stop = True  # on all ranks, since all of them know all translations

    @property
    def gives_up(self) -> bool:
        """Whether there were `patience` validations without a better BLEU."""
        return self.patience is not None and self.worse >= self.patience

    @torch.inference_mode()
    def score(
        self, trainer: L.Trainer, model: TranslationModel
    ) -> tuple[float, list[Translation]]:
        """BLEU of a model in evaluation mode, and its translations, on all ranks."""
        engine = TorchEngine([model], self.length_ratio)
        translator = Translator(engine, self.vocabularies, self.decode, self.normalise)
        mine = slice(trainer.global_rank, None, trainer.world_size)
        sources = [source for source, _ in self.pairs]
        precision = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision("highest")  # as scripts/evaluate.py computes
        mine_found: list[Translation] = []
        started = time.perf_counter()
        try:
            with (
                torch.autocast(next(model.parameters()).device.type, enabled=False),
                suppress(StopIteration),
            ):
                mine_found = translator.translate_corpus(
                    sources[mine], progress=self.stop.leave_if_asked
                )
        finally:
            torch.set_float32_matmul_precision(precision)
        # The state was saved before the validation, and the next run begins with it.
        (stopping,) = self.stop.agreed()
        if stopping:
            raise Interrupted(stopping, trainer.global_step, self.bundle_dir.parent)
        translations = self._gather(mine_found)
        self.seconds = time.perf_counter() - started
        hypotheses, references = map(str, translations), (target for _, target in self.pairs)
        [bleu] = corpus_scores(list(hypotheses), list(references), ["BLEU"])
        self.signature = bleu.signature
        return bleu.value, translations

    def ship(
        self, trainer: L.Trainer, model: TranslationModel, step: int, bleu: float, **made: Any
    ) -> None:
        """Write `<run>/bundle`, with what else is known of its making."""
        training = {
            "step": step,
            "scores": {"BLEU": bleu},
            "signatures": {"BLEU": self.signature},
            "length_ratio": self.length_ratio,
            "config": self.settings,
            **made,
        }
        error: RunError | None = None
        if trainer.is_global_zero:
            self.head = choose_head(model, self._ids())
            bundle = Bundle(
                model, self.vocabularies, self.decode, training, self.normalise, self.head
            )
            try:
                bundle.save(self.bundle_dir)
            except RunError as caught:
                error = caught
        if self.stop.processes.largest(error is not None)[0]:  # all end, and none waits for one
            raise RunError(
                f"{error or 'the bundle could not be written: see the first process'}, then go "
                f"on: python scripts/train.py resume={self.bundle_dir.parent}"
            ) from error

    def _ids(self) -> list[tuple[list[int], list[int]]]:
        """The validation pairs as the model reads them."""
        normalise = normaliser(self.normalise)
        as_written = normaliser(target_steps({"config": self.settings}, self.normalise))
        sources = self.vocabularies.source.encode(normalise(source) for source, _ in self.pairs)
        targets = self.vocabularies.target.encode(as_written(target) for _, target in self.pairs)
        return list(zip(sources, targets, strict=True))

    def _gather(self, mine: list[Translation]) -> list[Translation]:
        """The translations of all ranks in the order of the corpus."""
        shares = self.stop.processes.gather(mine)
        merged = [Translation("", 0.0)] * len(self.pairs)
        for rank, share in enumerate(shares):
            merged[rank :: len(shares)] = share
        return merged
