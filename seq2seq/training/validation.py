"""Validation: computes the loss, translates, scores BLEU, and keeps the best model as a bundle."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from seq2seq.bundle.averaging import average_weights, copy_weights
from seq2seq.bundle.bundle import Bundle, unique_weights
from seq2seq.bundle.config import read_config
from seq2seq.config import DecodeConfig, TrainerConfig
from seq2seq.data.corpus import Pair
from seq2seq.data.vocabularies import Vocabularies
from seq2seq.decoding.attention_head import AttentionHead
from seq2seq.errors import RunError, command_line
from seq2seq.evaluation.metrics import corpus_scores
from seq2seq.files import restored
from seq2seq.inference.engines.torch import TorchEngine
from seq2seq.inference.head_selection import choose_head
from seq2seq.inference.translation import Translation
from seq2seq.inference.translator import Translator
from seq2seq.model.translation_model import TranslationModel
from seq2seq.text import normaliser
from seq2seq.training.averaging import Snapshots
from seq2seq.training.loss import validation_nll
from seq2seq.training.run_folder import Run
from seq2seq.training.sharding import gathered_model
from seq2seq.training.stopping import Interrupted, Stopping

if TYPE_CHECKING:
    from seq2seq.training.trainer import Trainer

log = logging.getLogger(__name__)

SHORT_RUN, FEWEST_SCORED = 50, 50  # steps of a short run; fewest pairs that it translates
SAMPLES, WIDTH = 3, 90  # translations that each validation logs; most characters of each


class Validation:
    """Logs `val/nll` and `val/bleu`; BLEU comes from the same code as in `scripts/evaluate.py`.

    If BLEU is the best so far, and better than that of an average there, it writes `<run>/bundle`.

    Args:
        run: its folder, processes and settings; the bundle stores the settings.
        normalise: normalisation steps of a source before the model reads it.
        patience: validations without a better BLEU after which training stops; None = never.
        length_ratio: target tokens per source token of the training corpus.
        snapshots: store validated weights for an average at the end; None = no average.

    Attributes:
        best, best_step: best BLEU so far, and its step.
        worse: validations since the best.
        average: BLEU of the bundle, if it is an average of several steps.
        summary: steps and BLEU of the average at the end; None if there is none.
        head: the attention head of the bundle that aligns best.
        latest, translations, seconds: of the last validation: BLEU, translations in the order of
            the pairs, and the time from the start until all processes had translated.
        signature: says how BLEU is computed.
    """

    def __init__(
        self,
        run: Run,
        pairs: list[Pair],
        vocabularies: Vocabularies,
        decode: DecodeConfig,
        *,
        normalise: Sequence[str] = (),
        patience: int | None = None,
        length_ratio: float = 1.0,
        snapshots: Snapshots | None = None,
    ):
        self.run, self.bundle_dir = run, run.folder / "bundle"
        self.pairs, self.vocabularies, self.decode = pairs, vocabularies, decode
        self.normalise, self.patience = list(normalise), patience
        self.length_ratio, self.snapshots = length_ratio, snapshots
        self.best = self.average = self.latest = float("-inf")
        self.best_step = self.worse = 0
        self.summary: dict[str, Any] | None = None
        self.head = AttentionHead()
        self.translations: list[Translation] = []
        self.signature, self.seconds = "", 0.0

    def state_dict(self) -> dict[str, Any]:
        return {
            "best": self.best, "best_step": self.best_step, "worse": self.worse,
            "pairs": len(self.pairs),
        }  # fmt: skip

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.best, self.best_step, self.worse = state["best"], state["best_step"], state["worse"]

    @property
    def out_of_patience(self) -> bool:
        """Whether the last `patience` validations brought no better BLEU."""
        return self.patience is not None and self.worse >= self.patience

    def begin(self, step: int) -> None:
        """Remove snapshots from after `step`, where training starts; read the bundle, if any."""
        if self.snapshots is not None:
            self.snapshots.forget_after(step)
        with self.run.processes.failing_together():
            if self.run.processes.rank == 0:
                restored(self.bundle_dir)
        if (self.bundle_dir / "config.json").exists():
            bundle = read_config(self.bundle_dir / "config.json")
            self.head, made = bundle.alignment, bundle.training
            if "averaged" in made:
                self.average = made["scores"]["BLEU"]

    def validate(self, trainer: Trainer) -> None:
        """Score the model, which is in evaluation mode, and keep it if it is the best; collective.

        Raises:
            Interrupted: a signal came; the state was saved before the validation.
            RunError: the bundle or a snapshot could not be written.
        """
        started, step = time.perf_counter(), trainer.step
        on_gpu, bf16 = trainer.device.type == "cuda", trainer.run.precision == "bf16-mixed"
        half = trainer.sharded and on_gpu and bf16
        model = gathered_model(trainer.model, dtype=torch.bfloat16 if half else None)
        nll = self._nll(trainer, model)
        bleu, self.translations = self.score(model, step)
        trainer.log({
            "val/nll": nll, "val/perplexity": nll.exp(), "val/bleu": bleu,
            "perf/validation_seconds": time.perf_counter() - started,
        })  # fmt: skip
        log.info("step %d: validation BLEU %.2f (best %.2f)", step, bleu, max(bleu, self.best))
        each = zip(self.pairs, self.translations, strict=True)
        for (source, target), output in islice(each, SAMPLES):
            log.info("  %s\n    -> %s\n     = %s", *map(_clipped, (source, str(output), target)))
        self.latest, self.worse = bleu, self.worse + 1
        if bleu > self.best:
            self.best, self.best_step, self.worse = bleu, step, 0
            if bleu > self.average:
                if half:  # the bundle stores full precision; only the first process writes it
                    keeps = self.run.processes.rank == 0
                    model = gathered_model(trainer.model, torch.device("cpu" if keeps else "meta"))
                self.write_bundle(model, step, bleu)
        if self.snapshots is not None:
            self.snapshots.keep(trainer.model, step, bleu)
        if self.out_of_patience and step < trainer.max_steps:
            log.info("stopping: %d validations without better BLEU (trainer.patience)", self.worse)

    @torch.inference_mode()
    def _nll(self, trainer: Trainer, model: TranslationModel) -> Tensor:
        """Return nats per target token of the validation pairs, in the precision of training."""
        totals = torch.zeros(2, device=trainer.device)
        with trainer.fabric.autocast():
            for batch in trainer.data.val_dataloader():
                if self.run.stop.signal:
                    break  # the search comes next and ends the run
                nll = validation_nll(model, batch.to(trainer.device))
                totals += torch.stack([nll, nll.new_tensor(batch.target_tokens)])
        totals = trainer.sum_over_processes(totals)
        return totals[0] / totals[1]

    @torch.inference_mode()
    def score(self, model: TranslationModel, step: int) -> tuple[float, list[Translation]]:
        """Translate the validation sources with a model in evaluation mode; collective.

        Returns:
            BLEU, and the translations in the order of the pairs; equal in all processes.

        Raises:
            Interrupted: a signal came.
        """
        processes, stop = self.run.processes, self.run.stop
        engine = TorchEngine([model], self.length_ratio)
        translator = Translator(engine, self.vocabularies, self.decode, self.normalise)
        mine = [source for source, _ in self.pairs][processes.rank :: processes.size]
        found: list[Translation] = []
        precision = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision("highest")  # as scripts/evaluate.py computes
        device, started = next(model.parameters()).device.type, time.perf_counter()
        try:
            with torch.autocast(device, enabled=False), suppress(Stopping):
                found = translator.translate_corpus(mine, progress=stop.raise_if_stopping)
        finally:
            torch.set_float32_matmul_precision(precision)
        # The state was saved before the validation, so resuming begins with this validation.
        if stopping := max(processes.gather(stop.signal)):
            raise Interrupted(stopping, step, self.run.folder)
        shares = processes.gather(found)
        rows = range(len(self.pairs))
        translations = [shares[row % processes.size][row // processes.size] for row in rows]
        self.seconds = time.perf_counter() - started
        references = [target for _, target in self.pairs]
        [bleu] = corpus_scores([str(one) for one in translations], references, ["BLEU"])
        self.signature = bleu.signature
        return bleu.value, translations

    def write_bundle(self, model: TranslationModel, step: int, bleu: float, **made: Any) -> None:
        """Write `<run>/bundle`; `made`: further facts for its training record; collective.

        Raises:
            RunError: the bundle could not be written; in all processes, so that none waits.
        """
        training = {
            "step": step,
            "scores": {"BLEU": bleu},
            "signatures": {"BLEU": self.signature},
            "length_ratio": self.length_ratio,
            "config": self.run.settings,
            **made,
        }
        with self.run.processes.failing_together():
            if self.run.processes.rank == 0:
                bundle = Bundle(model, self.vocabularies, self.decode, training, self.normalise)
                sides = normaliser(bundle.normalise), normaliser(bundle.normalise_target)
                ids = self.vocabularies.encode_pairs(self.pairs, *sides)
                self.head = bundle.alignment = choose_head(model, ids)
                try:
                    bundle.save(self.bundle_dir)
                except RunError as error:
                    again = command_line("train", f"resume={self.run.folder}")
                    raise RunError(f"{error}, then continue: {again}") from error

    def score_average(self, trainer: Trainer) -> None:
        """Score the average of the snapshots at the end; write it if it is better; collective."""
        chosen = [] if self.snapshots is None else self.snapshots.chosen()
        if len(chosen) < 2:
            return
        model, steps = trainer.model, [snapshot.step for snapshot in chosen]
        raw = {name: value.clone() for name, value in unique_weights(model).items()}
        copy_weights(model, average_weights([snapshot.path for snapshot in chosen]))
        model.eval()
        score, _ = self.score(model, trainer.step)
        if shipped := score > self.best and score >= self.average:
            names = [f"step {step}" for step in steps]
            self.write_bundle(model, steps[-1], score, averaged=names)
            self.average = score
        copy_weights(model, raw)
        self.summary = {"steps": steps, "val_bleu": round(score, 4), "shipped": shipped}
        trainer.log({"val/bleu_of_average": score})
        trainer.write_row()
        log.info(
            "average of steps %s: validation BLEU %.2f; best of one step %.2f: %s is the bundle",
            *(", ".join(map(str, steps)), score, self.best),
            "the average" if shipped else "that step",
        )


def _clipped(text: str) -> str:
    """Cut a long text, such as the repetitions of an untrained model."""
    return text if len(text) <= WIDTH else f"{text[:WIDTH]}... ({len(text)} characters)"


def scored_pairs(config: TrainerConfig, pairs: int) -> int:
    """Return how many validation pairs to translate.

    A short run translates some of them only: all could take longer than the run itself.
    """
    if config.val_pairs is not None or config.max_steps > SHORT_RUN:
        return pairs
    return min(pairs, max(FEWEST_SCORED, 10 * int(config.max_steps)))
