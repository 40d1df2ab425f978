"""What is shown while a model trains."""

from __future__ import annotations

import io
import logging
import re
import sys
from types import SimpleNamespace

from tiny_training import tiny_fit, tiny_task

from seq2seq.training.callbacks import progress
from seq2seq.training.callbacks.progress import Progress
from seq2seq.training.callbacks.throughput import Throughput

VALIDATION = SimpleNamespace(best=41.25, best_step=7)
BATCH = SimpleNamespace(target_tokens=9)


def trainer_at(step: int, max_steps: int):
    """Of a trainer what the callback looks at."""
    return SimpleNamespace(step=step, max_steps=max_steps, metrics={"train/nll": 2.5})


def test_a_log_gets_a_line_soon_with_the_best_bleu(caplog, monkeypatch):
    monkeypatch.setattr(progress, "FIRST", 0.0)
    caplog.set_level(logging.INFO, logger="seq2seq")
    tiny_fit(tiny_task(), [Throughput(), Progress(VALIDATION)], 3)
    lines = [record.getMessage() for record in caplog.records if "tokens/s" in record.getMessage()]
    assert len(lines) == 2  # the first step says nothing of the speed
    form = r"step 3/3: nll \d+\.\d{3}, [\d,]+ target tokens/s, best BLEU 41\.2 at 7, left 0:00:00"
    assert re.fullmatch(form, lines[1])


def test_lines_become_rare_in_a_long_run(caplog, monkeypatch):
    """In ten hours of steps of one second: the first after 5 s, then each tenth, then 5 min."""
    caplog.set_level(logging.INFO, logger="seq2seq")
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: clock.now))
    shown = Progress(VALIDATION)
    trainer = trainer_at(0, 36_000)
    shown.on_train_start(trainer)
    for step in range(1, 36_001):
        trainer.step, clock.now = step, float(step)
        shown.on_step_end(trainer, [BATCH])
    lines = [record.getMessage() for record in caplog.records]
    assert lines[0] == "step 5/36000: nll 2.500, best BLEU 41.2 at 7, left 9:59:55"
    steps = [int(re.match(r"step (\d+)/", line)[1]) for line in lines]
    assert steps[:3] == [5, 10, 15]
    assert steps[-1] - steps[-2] == progress.LONGEST
    assert len(steps) < 180


def test_a_resumed_run_starts_where_it_was_and_counts_only_what_is_to_come(monkeypatch):
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: clock.now))
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    shown = Progress(VALIDATION)
    trainer = trainer_at(900, 1000)
    shown.on_train_start(trainer)
    assert shown.bar.n == 900
    trainer.metrics["perf/target_tokens_per_second"] = 1050.0
    for step in (901, 902, 903):
        trainer.step, clock.now = step, clock.now + 2.0
        shown.on_step_end(trainer, [BATCH])
    assert shown.bar.n == 903
    said = "nll 2.500, 1,050 target tokens/s, best BLEU 41.2 at 7, left 0:03:14"
    assert shown.bar.postfix == said
    shown.on_train_end(trainer)
    shown.close()


def test_a_terminal_gets_a_bar_and_whole_lines_of_the_log_above_it(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr(progress, "REFRESH", 0.0)
    tiny_fit(tiny_task(), [Progress(VALIDATION)], 3)
    pictures = screen.getvalue().split("\r")
    assert any("2/3" in picture for picture in pictures)
    assert "100%" in pictures[-1] or "100%" in pictures[-2]
    assert "best BLEU 41.2 at 7" in screen.getvalue()
