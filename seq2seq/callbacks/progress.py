"""What a person sees while a model trains: step, loss, speed, best BLEU, time left."""

from __future__ import annotations

import logging
import sys
import time
from collections import deque
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from tqdm import tqdm
from tqdm.contrib.logging import logging_redirect_tqdm

from seq2seq.callbacks import Callback
from seq2seq.callbacks.validation import Validation
from seq2seq.data.collate import Batch

if TYPE_CHECKING:
    from seq2seq.training.trainer import Trainer

log = logging.getLogger(__name__)

REFRESH = 0.5  # seconds between two pictures of the bar
# Seconds before the first line of a log, and between two lines at most.
FIRST, LONGEST = 5.0, 300.0
RECENT = 50  # steps that the speed is measured over


class Pace:
    """How fast a run goes, and from that how long it still takes.

    Args:
        total: steps of the whole run.
        val_every: steps from one validation to the next; the last step is validated too.
    """

    def __init__(self, total: int, val_every: int):
        self.total, self.val_every = total, val_every
        self.steps: deque[tuple[float, int]] = deque(maxlen=RECENT)  # seconds, target tokens
        self.validations: list[float] = []  # seconds
        self._warm = False

    def add_step(self, seconds: float, tokens: int) -> None:
        if len(self.steps) == 1 and not self._warm:
            self.steps.clear()  # the first step also opened the data, or compiled
            self._warm = True
        self.steps.append((seconds, tokens))

    @property
    def tokens_per_second(self) -> float:
        seconds = sum(seconds for seconds, _ in self.steps)
        return sum(tokens for _, tokens in self.steps) / max(seconds, 1e-9)

    def left(self, step: int) -> str:
        """Time after `step` and before its validation, if it has one.

        It is a lower bound until the first validation has shown how long they take.
        """
        per_step = sum(seconds for seconds, _ in self.steps) / len(self.steps)
        seconds = per_step * (self.total - step)
        last = self.total % self.val_every > 0
        to_come = self.total // self.val_every - (step - 1) // self.val_every + last
        if self.validations:
            seconds += to_come * sum(self.validations) / len(self.validations)
        bound = "" if self.validations else "> "
        return bound + str(timedelta(seconds=round(seconds)))


class Progress(Callback):
    """A bar over the whole run on a terminal; elsewhere a line from time to time, soon at first.

    Args:
        validation: knows the best BLEU, also that of a run which goes on.
        val_every_n_steps: as in the settings of the trainer.
    """

    def __init__(self, validation: Validation, val_every_n_steps: int) -> None:
        self.validation, self.val_every = validation, val_every_n_steps
        self.bar: tqdm[Any] | None = None
        self._open = ExitStack()

    def on_train_start(self, trainer: Trainer) -> None:
        self.pace = Pace(trainer.max_steps, self.val_every)
        self._started = self._last = self._shown = time.monotonic()
        if trainer.run.processes.rank == 0 and sys.stderr.isatty():
            self._open.enter_context(logging_redirect_tqdm())  # else lines would break the bar
            self.bar = self._open.enter_context(
                tqdm(
                    total=trainer.max_steps,
                    initial=trainer.step,
                    dynamic_ncols=True,
                    bar_format="{percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt} [{elapsed}{postfix}]",
                )
            )

    def on_step_end(self, trainer: Trainer, batches: Sequence[Batch]) -> None:
        if trainer.run.processes.rank != 0:
            return
        # The other processes' batches are much the same.
        tokens = sum(batch.target_tokens for batch in batches) * trainer.fabric.world_size
        now = time.monotonic()
        self.pace.add_step(now - self._last, tokens)
        self._last = now
        since = now - self._shown
        if self.bar is not None and since >= REFRESH:
            self.bar.n = trainer.step
            self.bar.set_postfix_str(self._text(trainer))
        elif self.bar is None and since >= min(max(FIRST, (now - self._started) / 10), LONGEST):
            log.info("step %d/%d: %s", trainer.step, trainer.max_steps, self._text(trainer))
        else:
            return
        self._shown = now

    def on_validation_start(self, trainer: Trainer) -> None:
        self._validation = time.monotonic()

    def on_validation_end(self, trainer: Trainer) -> None:
        self._last = time.monotonic()
        self.pace.validations.append(self._last - self._validation)

    def on_train_end(self, trainer: Trainer) -> None:
        if self.bar is not None:
            self.bar.n = trainer.step
            self.bar.set_postfix_str(", ".join(self._figures(trainer)))

    def close(self) -> None:
        self._open.close()

    def _text(self, trainer: Trainer) -> str:
        return ", ".join([*self._figures(trainer), f"left {self.pace.left(trainer.step)}"])

    def _figures(self, trainer: Trainer) -> list[str]:
        """Loss, speed of all processes, best BLEU."""
        figures = []
        nll = trainer.metrics.get("train/nll")
        if nll is not None:
            figures.append(f"nll {float(nll):.3f}")
        figures.append(f"{self.pace.tokens_per_second:,.0f} target tokens/s")
        if self.validation.best_step:
            figures.append(f"best BLEU {self.validation.best:.1f} at {self.validation.best_step}")
        return figures
