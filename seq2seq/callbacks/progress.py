"""What a person sees while a model trains: step, loss, tokens per second, BLEU, time left."""

from __future__ import annotations

import sys
import time
from typing import Any

import lightning as L
from tqdm import tqdm

EVERY = 30.0  # seconds between two lines when the output is no terminal


class Progress(L.Callback):
    """A progress bar over the whole run; in a log file, one line from time to time."""

    def __init__(self) -> None:
        self.bar: tqdm[Any] | None = None
        self._last_line = 0.0

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        if not trainer.is_global_zero:
            return
        self.bar = tqdm(
            total=trainer.max_steps,
            initial=trainer.global_step,
            unit="step",
            dynamic_ncols=True,
            disable=not sys.stderr.isatty(),
        )
        self._first_step, self._started = trainer.global_step, time.monotonic()

    def on_train_batch_end(
        self,
        trainer: L.Trainer,
        pl_module: L.LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
    ) -> None:
        if self.bar is None:
            return
        if not self.bar.disable:
            if trainer.global_step > self.bar.n:
                self.bar.update(trainer.global_step - self.bar.n)
            if trainer.global_step % 10 == 0:
                self.bar.set_postfix_str(_figures(trainer))
        elif time.monotonic() - self._last_line > EVERY:
            self._last_line = time.monotonic()
            print(f"step {trainer.global_step}/{trainer.max_steps} {_figures(trainer)}"
                  f" left {self._time_left(trainer)}", flush=True)

    def _time_left(self, trainer: L.Trainer) -> str:
        done = trainer.global_step - self._first_step
        per_step = (time.monotonic() - self._started) / max(done, 1)
        return str(tqdm.format_interval(per_step * (trainer.max_steps - trainer.global_step)))

    def on_train_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        if self.bar is not None:
            self.bar.close()


def _figures(trainer: L.Trainer) -> str:
    """The newest loss, speed and BLEU, as far as there are any."""
    metrics = trainer.callback_metrics
    shown = (
        ("train/nll", "nll {:.3f}"),
        ("perf/target_tokens_per_second", "{:,.0f} tok/s"),
        ("val/bleu", "BLEU {:.1f}"),
    )
    return " ".join(form.format(float(metrics[key])) for key, form in shown if key in metrics)
