"""Engines that run the steps of preparation: processes of this machine, or a Ray cluster.

Both run the same functions on the same blocks, so both write the same files. All machines must
share the folder of the corpus.
"""

from __future__ import annotations

import functools
import importlib
import multiprocessing
import os
import signal
import socket
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import chain, islice, starmap
from typing import Any, TypeAlias, TypeVar

from seq2seq.config.data import EngineConfig
from seq2seq.cores import usable_cores
from seq2seq.errors import DataError, install

Result = TypeVar("Result")
TIMEOUT_SECONDS = 5.0  # for a cluster's answer
IN_FLIGHT = 2  # tasks under way for each core of a Ray cluster
RETRIES = 5  # of a task whose process or machine was lost


class LocalEngine:
    """Processes of this machine; jobs enter memory only as fast as the processes take them.

    Args:
        processes: how many; None = one for each core. A single job runs in this process.
    """

    machines = 1  # that share the work

    def __init__(self, processes: int | None = None):
        self.processes = processes or usable_cores()

    def each(
        self, function: Callable[..., Result], jobs: Iterable[tuple[Any, ...]]
    ) -> Iterator[Result]:
        """Yield `function(*job)` for each job, in order; both must be picklable."""
        waiting = iter(jobs)
        first = list(islice(waiting, 2))
        jobs = chain(first, waiting)
        if len(first) < 2 or self.processes == 1:
            yield from starmap(function, jobs)
            return
        # Not forked: the threads of other libraries would not survive a fork.
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(self.processes, context, _prepare_worker) as pool:
            submit = functools.partial(pool.submit, function)
            try:
                yield from _in_order(submit, Future.result, jobs, most=self.processes + 2)
            except BrokenProcessPool as error:
                raise DataError(
                    "a process that prepared the corpus was killed, most likely for lack of "
                    "memory: start again with fewer processes, such as data.processes=1 "
                    f"({error})"
                ) from error
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise


class RayEngine:
    """Tasks of a Ray cluster. If a machine dies, others run its tasks again.

    Args:
        address: of the cluster, or `auto`; None = a cluster of this machine alone.
        processes: of a cluster of this machine alone; None = one for each core.

    Raises:
        DataError: Ray is not installed, or there is no cluster.
    """

    def __init__(self, address: str | None = None, processes: int | None = None):
        try:
            self.ray = importlib.import_module("ray")
        except ImportError as error:
            raise DataError(
                f"prepare.engine=ray needs Ray: {install('ray')}, or leave it out"
            ) from error
        try:
            if address and ":" in address:  # Ray itself would try for minutes
                host, _, port = address.rpartition(":")
                socket.create_connection((host, int(port)), timeout=TIMEOUT_SECONDS).close()
            self.ray.init(
                address or "local",
                num_cpus=None if address else processes,
                ignore_reinit_error=True,
                log_to_driver=False,
                logging_level="warning",
                include_dashboard=None if address else False,
                runtime_env={"env_vars": {"TOKENIZERS_PARALLELISM": "false"}},
            )
        except (OSError, ValueError) as error:
            raise DataError(
                f"there is no Ray cluster at prepare.address={address} ({error}): start one "
                "(ray start --head), or give its HOST:PORT or `auto`"
            ) from error
        self.machines = max(1, sum(node["Alive"] and bool(node["Resources"].get("CPU"))
                                  for node in self.ray.nodes()))  # fmt: skip

    def each(
        self, function: Callable[..., Result], jobs: Iterable[tuple[Any, ...]]
    ) -> Iterator[Result]:
        """Yield `function(*job)` for each job, in order; both must be picklable."""
        remote = self.ray.remote(max_retries=RETRIES, scheduling_strategy="SPREAD")(_call)
        submit = functools.partial(remote.remote, self.ray.put(function))
        most = IN_FLIGHT * max(1, int(self.ray.cluster_resources().get("CPU", 1)))
        return _in_order(submit, self._get, jobs, most)

    def _get(self, reference: Any) -> Any:
        try:
            return self.ray.get(reference)
        except self.ray.exceptions.RayTaskError as error:
            raise error.cause from None  # the error that the function raised
        except self.ray.exceptions.RayError as error:
            raise DataError(
                f"the Ray cluster lost a task ({type(error).__name__}: {error}). If memory ran "
                "out, start again with fewer tasks at a time on each machine: ray start "
                "--num-cpus=N, or data.processes=N without prepare.address"
            ) from error


Engine: TypeAlias = LocalEngine | RayEngine


def engine_of(config: EngineConfig, processes: int | None) -> Engine:
    """Make the engine that the settings name."""
    if config.engine == "ray":
        return RayEngine(config.address, processes)
    return LocalEngine(processes)


def _in_order(
    submit: Callable[..., Any],
    get: Callable[[Any], Result],
    jobs: Iterable[tuple[Any, ...]],
    most: int,
) -> Iterator[Result]:
    """Yield results in the order of their jobs, with at most `most` jobs under way."""
    running: deque[Any] = deque()
    for job in jobs:
        running.append(submit(*job))
        if len(running) >= most:
            yield get(running.popleft())
    while running:
        yield get(running.popleft())


def _call(function: Callable[..., Result], *job: Any) -> Result:
    return function(*job)


def _prepare_worker() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all; the main process ends them
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # the processes share the cores already
    threading.Thread(target=_end_with_main_process, daemon=True).start()


def _end_with_main_process() -> None:
    """End this process as soon as the main process has ended, which may have been killed."""
    main = multiprocessing.parent_process()
    assert main is not None
    main.join()
    os._exit(1)
