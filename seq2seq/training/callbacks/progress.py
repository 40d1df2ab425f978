"""Progress of training for people: step, loss, speed, best BLEU, time left."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import timedelta

from tqdm import tqdm
from tqdm.contrib.logging import logging_redirect_tqdm

from seq2seq.data.collate import Batch
from seq2seq.training.callbacks import Callback
from seq2seq.training.trainer import Trainer
from seq2seq.training.validation import Validation

log = logging.getLogger(__name__)

REFRESH = 0.5  # seconds between two updates of the bar
# Seconds before the first line of the log, and most seconds between two lines.
FIRST, LONGEST = 5.0, 300.0


class Progress(Callback):
    """Shows a bar on a terminal; elsewhere logs a line from time to time, more often at first."""

    def __init__(self, validation: Validation) -> None:
        self.validation = validation
        self._open = ExitStack()

    def on_train_start(self, trainer: Trainer) -> None:
        self._first = trainer.step
        self._started = self._shown = time.monotonic()
        self.bar = self._open.enter_context(
            tqdm(
                total=trainer.max_steps,
                initial=trainer.step,
                disable=None,  # unless standard error is a terminal
                dynamic_ncols=True,
                bar_format="{percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt} [{elapsed}{postfix}]",
            )
        )
        if not self.bar.disable:
            self._open.enter_context(logging_redirect_tqdm())  # else lines would break the bar

    def on_step_end(self, trainer: Trainer, batches: Sequence[Batch]) -> None:
        now = time.monotonic()
        pause = min(max(FIRST, (now - self._started) / 10), LONGEST)
        if now - self._shown < (pause if self.bar.disable else REFRESH):
            return
        self._shown = now
        if self.bar.disable:
            log.info("step %d/%d: %s", trainer.step, trainer.max_steps, self._text(trainer))
        else:
            self._draw(trainer)

    def on_train_end(self, trainer: Trainer) -> None:
        self._draw(trainer)

    def close(self) -> None:
        self._open.close()

    def _draw(self, trainer: Trainer) -> None:
        self.bar.n = trainer.step
        self.bar.set_postfix_str(self._text(trainer))

    def _text(self, trainer: Trainer) -> str:
        """Write the loss of the last step, the last logged speed, best BLEU and time left."""
        metrics = trainer.metrics
        figures = []
        if (nll := metrics.get("train/nll")) is not None:  # else no step was made
            figures.append(f"nll {float(nll):.3f}")
        if speed := metrics.get("perf/target_tokens_per_second"):
            figures.append(f"{speed:,.0f} target tokens/s")
        if best := self.validation.best_step:
            figures.append(f"best BLEU {self.validation.best:.1f} at {best}")
        # Assume the mean time per step so far, validations included.
        for_each = (time.monotonic() - self._started) / max(1, trainer.step - self._first)
        left = timedelta(seconds=round(for_each * (trainer.max_steps - trainer.step)))
        return ", ".join([*figures, f"left {left}"])
