"""What is shown while a model trains."""

from __future__ import annotations

import io
import logging
import re
import sys
from types import SimpleNamespace

import pytest
from tiny_training import tiny_fit, tiny_task

from seq2seq.training.callbacks import progress
from seq2seq.training.callbacks.progress import Progress

VALIDATION = SimpleNamespace(best=41.25, best_step=7)
BATCH = SimpleNamespace(target_tokens=9)


def trainer_at(step: int, max_steps: int, processes: int = 1, val_every: int = 10):
    """Of a trainer what the callback looks at."""
    return SimpleNamespace(
        step=step, max_steps=max_steps, metrics={},
        config=SimpleNamespace(val_every_n_steps=val_every),
        run=SimpleNamespace(processes=SimpleNamespace(rank=0)),
        fabric=SimpleNamespace(world_size=processes),
    )  # fmt: skip


def shown_after(step: int, seconds: list[float], validations: list[float]) -> str:
    """What is said after steps that took so long, and validations."""
    shown, trainer = Progress(VALIDATION), trainer_at(step, 105)
    shown._steps.extend((one, 100) for one in seconds)
    shown._validations = validations
    return shown._text(trainer)


def test_the_speed_is_that_of_the_last_steps():
    found = shown_after(5, [30.0] + [0.5] * progress.RECENT, [])
    assert found.startswith("200 target tokens/s, ")


@pytest.mark.parametrize(
    ("step", "validations", "left"),
    [
        (10, [], "> 0:03:10"),  # validation is to come, and nobody knows how long it takes
        (10, [30.0], "0:08:40"),  # 95 steps of 2 s, and validations after 10, 20, ..., 100 and 105
        (11, [30.0], "0:08:08"),
        (100, [20.0, 40.0], "0:01:10"),
        (105, [30.0], "0:00:30"),
    ],
)
def test_the_time_left_has_steps_and_validations(step, validations, left):
    assert shown_after(step, [2.0] * 3, validations).endswith(f", left {left}")


def test_a_log_gets_a_line_soon_with_the_best_bleu(caplog, monkeypatch):
    monkeypatch.setattr(progress, "FIRST", 0.0)
    caplog.set_level(logging.INFO, logger="seq2seq")
    tiny_fit(tiny_task(), [Progress(VALIDATION)], 3)
    lines = [record.getMessage() for record in caplog.records if "tokens/s" in record.getMessage()]
    assert len(lines) == 2  # the first step says nothing of the speed
    form = r"step 3/3: nll \d+\.\d{3}, [\d,]+ target tokens/s, best BLEU 41\.2 at 7, left 0:00:00"
    assert re.fullmatch(form, lines[1])


def test_lines_become_rare_in_a_long_run(caplog, monkeypatch):
    """In ten hours of steps of one second: the first after 5 s, then each tenth, then 5 min."""
    caplog.set_level(logging.INFO, logger="seq2seq")
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(progress.time, "monotonic", lambda: clock.now)
    shown = Progress(VALIDATION)
    trainer = trainer_at(0, 36_000, val_every=1000)
    shown.on_train_start(trainer)
    for step in range(1, 36_001):
        trainer.step, clock.now = step, float(step)
        shown.on_step_end(trainer, [BATCH])
    lines = [record.getMessage() for record in caplog.records]
    [announced] = [line for line in lines if not line.startswith("step ")]
    assert announced == (
        "time        9:59:49 left for 35,989 steps of 1 s; 36 validations come on top"
    )
    steps = [int(re.match(r"step (\d+)/", line)[1]) for line in lines if line != announced]
    assert steps[:3] == [5, 10, 15]
    assert steps[-1] - steps[-2] == progress.LONGEST
    assert len(steps) < 180


def test_a_resumed_run_starts_where_it_was_and_counts_only_what_is_to_come(monkeypatch):
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(progress.time, "monotonic", lambda: clock.now)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    shown = Progress(VALIDATION)
    trainer = trainer_at(900, 1000, processes=2, val_every=1000)
    shown.on_train_start(trainer)
    assert shown.bar.n == 900
    for step in (901, 902, 903):
        trainer.step, clock.now = step, clock.now + 2.0
        shown.on_step_end(trainer, [SimpleNamespace(target_tokens=50)])
    assert shown.bar.n == 903
    assert shown.bar.postfix == "50 target tokens/s, best BLEU 41.2 at 7, left > 0:03:14"
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
