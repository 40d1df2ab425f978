"""What a person sees while a model trains: step, loss, speed, best BLEU, time left."""

from __future__ import annotations

import logging
import math
import sys
import time
from collections import deque
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import timedelta
from statistics import fmean
from typing import TYPE_CHECKING, Any

from tqdm import tqdm
from tqdm.contrib.logging import logging_redirect_tqdm

from seq2seq.data.collate import Batch
from seq2seq.training.callbacks import Callback
from seq2seq.training.validation import Validation

if TYPE_CHECKING:
    from seq2seq.training.trainer import Trainer

log = logging.getLogger(__name__)

REFRESH = 0.5  # seconds between two pictures of the bar
# Seconds before the first line of a log, and between two lines at most.
FIRST, LONGEST = 5.0, 300.0
MEASURED = 10  # steps after which the time of a run is announced
RECENT = 50  # steps that the speed is measured over


class Progress(Callback):
    """A bar over the whole run on a terminal; elsewhere a line from time to time, soon at first.

    The speed is that of the last steps by the clock of the host, so that nothing waits for a GPU.

    Args:
        validation: knows the best BLEU, also that of a run which goes on.
    """

    def __init__(self, validation: Validation) -> None:
        self.validation = validation
        self.bar: tqdm[Any] | None = None
        self._open = ExitStack()
        self._steps: deque[tuple[float, int]] = deque(maxlen=RECENT)  # seconds, target tokens
        self._validations: list[float] = []  # seconds, saving included
        self._announced = False
        self._last: float | None = None  # when the last step was over

    def on_train_start(self, trainer: Trainer) -> None:
        self._started = self._shown = time.monotonic()
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
        now = time.monotonic()
        if self._last is not None:  # the first step also opened the data, or compiled
            # The other processes' batches are much the same.
            tokens = sum(batch.target_tokens for batch in batches) * trainer.fabric.world_size
            self._steps.append((now - self._last, tokens))
        self._last = now
        if len(self._steps) == MEASURED and not self._announced:
            self._announce(trainer)
        since = now - self._shown
        if not self._steps:
            return
        if self.bar is not None and since >= REFRESH:
            self.bar.n = trainer.step
            self.bar.set_postfix_str(self._text(trainer))
        elif self.bar is None and since >= min(max(FIRST, (now - self._started) / 10), LONGEST):
            log.info("step %d/%d: %s", trainer.step, trainer.max_steps, self._text(trainer))
        else:
            return
        self._shown = now

    def on_validation_end(self, trainer: Trainer) -> None:
        now = time.monotonic()
        if self._last is not None:
            self._validations.append(now - self._last)
            self._last = now

    def on_train_end(self, trainer: Trainer) -> None:
        if self.bar is not None:
            self.bar.n = trainer.step
            self.bar.set_postfix_str(", ".join(self._figures(trainer)))

    def close(self) -> None:
        self._open.close()

    def _announce(self, trainer: Trainer) -> None:
        """Say how long the run will take, as soon as some steps were measured."""
        self._announced = True
        left, every = trainer.max_steps - trainer.step, trainer.config.val_every_n_steps
        seconds = fmean(seconds for seconds, _ in self._steps)
        log.info(
            "time        %s left for %s steps of %.2g s; %d validations come on top",
            timedelta(seconds=round(left * seconds)), f"{left:,}", seconds,
            math.ceil(trainer.max_steps / every) - trainer.step // every,
        )  # fmt: skip

    def _text(self, trainer: Trainer) -> str:
        return ", ".join([*self._figures(trainer), f"left {self._left(trainer)}"])

    def _figures(self, trainer: Trainer) -> list[str]:
        """Loss, speed of all processes, best BLEU."""
        figures = []
        nll = trainer.metrics.get("train/nll")
        if nll is not None:
            figures.append(f"nll {float(nll):.3f}")
        if self._steps:
            seconds, tokens = map(sum, zip(*self._steps, strict=True))
            figures.append(f"{tokens / max(seconds, 1e-9):,.0f} target tokens/s")
        if self.validation.best_step:
            figures.append(f"best BLEU {self.validation.best:.1f} at {self.validation.best_step}")
        return figures

    def _left(self, trainer: Trainer) -> str:
        """Time after this step and before its validation, if it has one.

        It is a lower bound until the first validation has shown how long they take.
        """
        step, total, every = trainer.step, trainer.max_steps, trainer.config.val_every_n_steps
        seconds = (total - step) * fmean(seconds for seconds, _ in self._steps)
        if not self._validations:
            return f"> {timedelta(seconds=round(seconds))}"
        last = total % every > 0  # the last step is validated, too
        to_come = total // every - (step - 1) // every + last
        return str(timedelta(seconds=round(seconds + to_come * fmean(self._validations))))
