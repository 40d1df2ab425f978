"""What all benchmarks share: medians of times, processes of their own, settings that take turns."""

from __future__ import annotations

import logging
import multiprocessing
import statistics
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any, NamedTuple, TypeVar

import torch

from seq2seq.errors import RunError
from seq2seq.training.hardware import ran_out

log = logging.getLogger(__name__)

Setting = TypeVar("Setting", bound=NamedTuple)
Measured = TypeVar("Measured")


def seconds_of(action: Callable[[], object], device: str = "cpu") -> float:
    """The time of one call, and of what it makes a GPU do."""
    started = time.perf_counter()
    action()
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - started


def median_seconds(
    action: Callable[[], object], repeats: int, device: str = "cpu", warm_up: int = 2
) -> float:
    """Median time of an action, after some calls that do not count."""
    times = [seconds_of(action, device) for _ in range(warm_up + repeats)]
    return statistics.median(times[warm_up:])


def described(setting: Any) -> str:
    """A named tuple in words: `beam=5, batch=64`."""
    return ", ".join(f"{name}={value}" for name, value in setting._asdict().items())


def in_turns(
    settings: Iterable[Setting], repeats: int, measure: Callable[[Setting], Measured]
) -> dict[Setting, list[Measured]]:
    """Measure each setting so many times, in turns, so that a busy machine hits all alike."""
    found: dict[Setting, list[Measured]] = {setting: [] for setting in settings}
    turns = [setting for _ in range(repeats) for setting in found]
    for turn, setting in enumerate(turns, 1):
        log.info("measuring   %d of %d: %s", turn, len(turns), described(setting))
        found[setting].append(measure(setting))
    return found


def in_own_process(
    measure: Callable[..., Measured], *arguments: Any, name: str, remedy: str
) -> Measured:
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
            raise RunError(f"{name} needs more memory than there is: {remedy}") from error
