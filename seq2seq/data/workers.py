"""Work shared among processes, with no more of it in memory than they can take."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from itertools import chain, islice
from typing import Any, TypeVar

from seq2seq.cores import usable_cores

Result = TypeVar("Result")


def in_parallel(
    function: Callable[..., Result], jobs: Iterable[tuple[Any, ...]], processes: int | None
) -> Iterator[Result]:
    """Yield `function(*job)` of each job, in order.

    Args:
        function: can be imported by name; jobs and results can be pickled.
        jobs: arguments; taken only when a process is about to be free.
        processes: None = one for each core. One job alone is done here.
    """
    waiting = iter(jobs)
    first = list(islice(waiting, 2))
    processes = processes or usable_cores()
    if len(first) < 2 or processes == 1:
        for job in chain(first, waiting):
            yield function(*job)
        return
    # Not forked: the threads of other libraries would not survive it.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, mp_context=context, initializer=_prepare_worker) as pool:
        running: deque[Future[Result]] = deque()
        try:
            for job in chain(first, waiting):
                running.append(pool.submit(function, *job))
                if len(running) > processes + 1:
                    yield running.popleft().result()
            while running:
                yield running.popleft().result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _prepare_worker() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all; the main process ends them
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # the processes share the cores already
