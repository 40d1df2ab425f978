"""The timer of training: parts are apart, what is excluded does not count."""

from __future__ import annotations

import time
from itertools import count

import pytest
import torch
from tiny_training import tiny_fit, tiny_task

from seq2seq.training.timing import PARTS, Timer


@pytest.fixture
def clock(monkeypatch):
    """Time passes while something sleeps, and at no other time."""
    now = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    monkeypatch.setattr(time, "sleep", lambda seconds: now.__setitem__(0, now[0] + seconds))


def test_parts_add_up_and_what_is_excluded_is_no_part_of_the_total(clock):
    timer = Timer(torch.device("cpu"))
    for _ in range(2):
        with timer.part("forward"):
            time.sleep(0.25)
        with timer.excluded():
            time.sleep(8)
        time.sleep(0.5)
        timer.step_done()
    read = timer.read()
    assert (read.steps, read.total, read.parts["forward"]) == (2, 1.5, 0.5)
    timer.restart()
    time.sleep(1)
    later = timer.read()
    assert (later.steps, later.total, later.parts["forward"]) == (0, 1, 0)


def test_training_has_all_parts_and_they_are_its_time():
    trainer = tiny_fit(tiny_task(), [], 3, accumulate=2)
    read = trainer.timer.read()
    assert read.steps == 3
    assert all(read.parts[part] > 0 for part in PARTS)
    assert 0.5 * read.total < sum(read.parts.values()) < read.total


def test_a_gpu_is_timed_by_events_of_its_stream_and_nothing_waits_before_they_are_read(monkeypatch):
    clock = count()

    class Event:
        def __init__(self, enable_timing):
            assert enable_timing

        def record(self):
            self.at = 2.0 * next(clock)  # milliseconds

        def synchronize(self):
            assert waits  # the whole GPU was waited for before

        def elapsed_time(self, end):
            return end.at - self.at

    waits = []
    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: waits.append(next(clock)))
    timer = Timer(torch.device("cuda"))
    for _ in range(2):
        for part in PARTS:
            with timer.part(part):
                pass
        timer.step_done()
    assert waits == []
    read = timer.read()
    assert read.parts == dict.fromkeys(PARTS, 2 * 0.002)
    assert len(waits) == 1
