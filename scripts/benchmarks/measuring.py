"""What all benchmarks share: medians of times, processes of their own, settings that take turns."""

from __future__ import annotations

import json
import logging
import multiprocessing
import statistics
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any, NamedTuple, TypeVar

import torch

from seq2seq.errors import RunError
from seq2seq.training.hardware import ran_out

log = logging.getLogger(__name__)

Setting = TypeVar("Setting", bound=NamedTuple)
Line = dict[str, Any]  # of what is printed


def median_seconds(
    action: Callable[[], object], repeats: int, device: str = "cpu", warm_up: int = 2
) -> float:
    """Median time of an action and of what it makes a GPU do, after calls that do not count."""
    times = []
    for _ in range(warm_up + repeats):
        started = time.perf_counter()
        action()
        if device == "cuda":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - started)
    return statistics.median(times[warm_up:])


def print_medians(
    settings: Sequence[Setting], repeats: int, measure: Callable[[Setting], Line], remedy: str
) -> None:
    """Print one JSON line for each setting: its values, and the median of each figure.

    Args:
        settings: are measured in turns, so that a busy machine hits all alike.
        repeats: turns.
        measure: called in a process of its own.
        remedy: what to do when memory runs out.

    Raises:
        RunError: memory ran out.
    """
    found: dict[Setting, list[Line]] = {setting: [] for setting in settings}
    for turn in range(repeats):
        for number, (setting, lines) in enumerate(found.items(), turn * len(found) + 1):
            words = ", ".join(f"{name}={value}" for name, value in setting._asdict().items())
            log.info("measuring   %d of %d: %s", number, repeats * len(found), words)
            lines.append(in_own_process(measure, setting, name=words, remedy=remedy))
    for setting, lines in found.items():
        figures = {name: median([line[name] for line in lines]) for name in lines[0]}
        print(json.dumps(setting._asdict() | figures), flush=True)


def median(values: Sequence[Any]) -> Any:
    """The median of numbers; of all else the first."""
    numbers = all(type(value) in (int, float) for value in values)  # True is none
    return round(statistics.median(values), 5) if numbers else values[0]


def in_own_process(measure: Callable[..., Line], *arguments: Any, name: str, remedy: str) -> Line:
    """Measure in a process of its own, since the peak memory of a process never falls.

    Raises:
        RunError: memory ran out while measuring `name`; the text ends with the remedy.
    """
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
        try:
            return process.submit(measure, *arguments).result()
        except (MemoryError, RuntimeError) as error:
            # Linux kills a process that takes too much.
            if not isinstance(error, BrokenProcessPool) and not ran_out(error):
                raise
            raise RunError(f"measuring {name} needs more memory than there is: {remedy}") from error
