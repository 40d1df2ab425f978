"""Reports bad steps, keeps their sentences, and stops a run that makes nothing else."""

from __future__ import annotations

import json
import logging
import math
from pathlib import Path
from typing import Any

import lightning as L

from seq2seq.callbacks.checkpoints import Checkpoints
from seq2seq.data.collate import Batch
from seq2seq.data.tokenizer import PAD
from seq2seq.data.vocabularies import Vocabularies
from seq2seq.errors import RunError
from seq2seq.training.guard import BadStep
from seq2seq.training.task import TranslationTask

log = logging.getLogger(__name__)

MOST = 10  # bad steps in a row after which nothing good is to be expected


class BadSteps(L.Callback):
    """Writes what each bad step was made of to `<run>/bad_steps/step-N.json`.

    Args:
        run_dir: folder of the run.
        vocabularies: those of the model.
        stop: whether the first bad step stops the run, or only `MOST` of them in a row.
        checkpoints: saves the state of a run that is stopped; it must stand behind this one.
    """

    def __init__(
        self, run_dir: Path, vocabularies: Vocabularies, stop: bool, checkpoints: Checkpoints
    ):
        self.run_dir, self.vocabularies = run_dir, vocabularies
        self.stop, self.checkpoints = stop, checkpoints
        self._error: RunError | None = None  # raised once the state is saved

    def on_train_batch_end(
        self,
        trainer: L.Trainer,
        pl_module: L.LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
    ) -> None:
        assert isinstance(pl_module, TranslationTask)
        bad = pl_module.bad_step
        if bad is None:
            return
        step = trainer.global_step
        where = self._write(step, trainer.global_rank, bad)
        what = (
            f"step {step} was left out: {bad.reason} ({bad.nll:.3g} nats per token, recent average "
            f"{bad.average:.3g}, gradient norm {bad.norm:.3g}). {where}"
        )
        hopeless = pl_module.guard.in_a_row >= MOST
        if not self.stop and not hopeless:
            log.warning("%s", what)
        else:
            self._error = RunError(f"{what}. {self._remedy(hopeless)}")
            self.checkpoints.wanted = True

    def on_train_batch_start(self, *_: Any) -> None:
        if self._error is not None:
            raise self._error

    def on_validation_start(self, *_: Any) -> None:
        if self._error is not None:
            raise self._error

    def _remedy(self, hopeless: bool) -> str:
        if hopeless:
            return (
                f"The run diverged: its last {MOST} steps were bad. Start a new one with a lower "
                "optim.lr, a longer optim.warmup_steps or trainer.precision=32-true"
            )
        return (
            "The state before it is saved. To go on behind these sentences: "
            f"python scripts/train.py resume={self.run_dir} trainer.on_loss_spike=skip"
        )

    def _write(self, step: int, rank: int, bad: BadStep) -> str:
        """Keep the sentences of this process; says where they are."""
        suffix = f"-rank{rank}" if rank else ""
        path = self.run_dir / "bad_steps" / f"step-{step:08d}{suffix}.json"
        content = {
            "step": step,
            "reason": bad.reason,
            "nll": _number(bad.nll),
            "average": _number(bad.average),
            "gradient_norm": _number(bad.norm),
            "batches": [self._sentences(batch) for batch in bad.batches],
        }
        try:
            path.parent.mkdir(exist_ok=True)
            text = json.dumps(content, ensure_ascii=False, indent=1)
            path.write_text(text + "\n", encoding="utf-8")
        except OSError as error:
            return f"Its sentences could not be written: {error}"
        return f"Its sentences are in {path}"

    def _sentences(self, batch: Batch) -> list[dict[str, Any]]:
        rows = []
        for source, target in zip(batch.source.tolist(), batch.labels.tolist(), strict=True):
            source_ids, target_ids = ([i for i in ids if i != PAD] for ids in (source, target))
            row = {
                "source": self.vocabularies.source.decode([source_ids])[0],
                "target": self.vocabularies.target.decode([target_ids])[0],
                "source_ids": str(source_ids),  # as text, they stand in one line
                "target_ids": str(target_ids),
            }
            rows.append(row)
        return rows


def _number(value: float) -> float | str:
    """As JSON can hold it, which knows neither NaN nor infinity."""
    return value if math.isfinite(value) else str(value)
