"""Decodes the validation set for real, logs its BLEU, and keeps the best model as a bundle."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import lightning as L
import torch

from seq2seq.config import DecodeConfig
from seq2seq.data.corpus import Pair
from seq2seq.data.vocabularies import Vocabularies
from seq2seq.evaluation.metrics import corpus_bleu
from seq2seq.inference.bundle import Bundle
from seq2seq.inference.translator import Translator
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
    """

    def __init__(
        self,
        pairs: list[Pair],
        vocabularies: Vocabularies,
        decode: DecodeConfig,
        bundle_dir: Path,
        settings: dict[str, Any],
        normalise: Sequence[str] = (),
    ):
        self.pairs, self.vocabularies, self.decode = pairs, vocabularies, decode
        self.bundle_dir, self.settings, self.normalise = bundle_dir, settings, list(normalise)
        self.best, self.best_step = float("-inf"), 0

    def state_dict(self) -> dict[str, Any]:
        return {"best": self.best, "best_step": self.best_step}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.best, self.best_step = state_dict["best"], state_dict["best_step"]

    @torch.inference_mode()
    def on_validation_epoch_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        assert isinstance(pl_module, TranslationTask)
        translator = Translator(pl_module.model, self.vocabularies, self.decode, self.normalise)
        mine = slice(trainer.global_rank, None, trainer.world_size)
        sources = [source for source, _ in self.pairs]
        precision = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision("highest")  # as scripts/evaluate.py computes
        with torch.autocast(pl_module.device.type, enabled=False):
            translations = [str(t) for t in translator.translate(sources[mine])]
        torch.set_float32_matmul_precision(precision)
        hypotheses = self._gather(translations, trainer)
        references = [target for _, target in self.pairs]
        bleu = corpus_bleu(hypotheses, references)
        pl_module.log("val/bleu", bleu, rank_zero_only=True)
        step = trainer.global_step
        log.info("step %d: validation BLEU %.2f (best %.2f)", step, bleu, max(bleu, self.best))
        for (source, target), output in list(zip(self.pairs, hypotheses, strict=True))[:SAMPLES]:
            log.info("  %s\n    -> %s\n     = %s", source, output, target)
        if bleu > self.best:
            self.best, self.best_step = bleu, step
            training = {"step": step, "scores": {"BLEU": bleu}, "config": self.settings}
            if trainer.is_global_zero:
                Bundle(
                    pl_module.model, self.vocabularies, self.decode, training, self.normalise
                ).save(self.bundle_dir)

    def _gather(self, mine: list[str], trainer: L.Trainer) -> list[str]:
        """The translations of all ranks in the order of the corpus."""
        if trainer.world_size == 1:
            return mine
        shares: list[list[str]] = [[] for _ in range(trainer.world_size)]
        torch.distributed.all_gather_object(shares, mine)
        merged = [""] * len(self.pairs)
        for rank, share in enumerate(shares):
            merged[rank :: trainer.world_size] = share
        return merged
