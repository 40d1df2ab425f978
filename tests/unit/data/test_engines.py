"""Work in several processes: results in order, jobs taken no faster than they are done."""

from __future__ import annotations

import multiprocessing
import os
import time
from pathlib import Path

import pytest

from seq2seq.data.engines import LocalEngine


def square(number: int) -> tuple[int, int]:
    time.sleep(0.01 * (number % 3))
    return number * number, os.getpid()


def fail(number: int) -> int:
    if number == 3:
        raise ValueError("number 3 is bad")
    return number


@pytest.mark.parametrize("processes", [1, 2])
def test_results_come_in_order(processes):
    jobs = ((number,) for number in range(20))
    assert [value for value, _ in LocalEngine(processes).each(square, jobs)] == [
        number * number for number in range(20)
    ]


def test_one_job_alone_needs_no_other_process():
    assert [pid for _, pid in LocalEngine(4).each(square, [(2,)])] == [os.getpid()]
    assert os.getpid() not in {pid for _, pid in LocalEngine(2).each(square, [(1,), (2,)])}
    assert list(LocalEngine(4).each(square, [])) == []


@pytest.mark.parametrize("processes", [1, 2])
def test_jobs_are_taken_only_when_a_process_is_about_to_be_free(processes):
    taken = 0

    def jobs():
        nonlocal taken
        for number in range(100):
            taken += 1
            yield (number,)

    for done, _ in enumerate(LocalEngine(processes).each(square, jobs())):
        assert taken - done <= processes + 2


@pytest.mark.parametrize("processes", [1, 2])
def test_an_error_in_a_process_is_raised_here(processes):
    with pytest.raises(ValueError, match="number 3 is bad"):
        list(LocalEngine(processes).each(fail, ((number,) for number in range(9))))


def beat(folder: Path, number: int) -> None:
    for _ in range(600):
        (folder / str(number)).write_text(str(time.monotonic()))
        time.sleep(0.05)


def lead(folder: Path) -> None:
    list(LocalEngine(2).each(beat, ((folder, number) for number in range(2))))


def test_processes_end_when_the_main_process_is_killed(tmp_path):
    def beats(pause: float) -> list[str]:
        time.sleep(pause)
        return [path.read_text() for path in tmp_path.iterdir()]

    main = multiprocessing.get_context("spawn").Process(target=lead, args=(tmp_path,))
    main.start()
    while len(beats(0.1)) < 2:
        assert main.is_alive()
    main.kill()
    main.join()
    assert any(beats(1.0) == beats(1.0) for _ in range(5))
