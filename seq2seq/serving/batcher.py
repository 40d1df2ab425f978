"""A batcher: texts that wait, from whichever connection, are translated together.

A translation does not depend on its batch, so what is joined changes nothing but the time it takes.
All state belongs to the event loop; only `run` is called in other threads.
"""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from seq2seq.errors import UserError
from seq2seq.inference.translation import Translation

Settings = Mapping[str, Any]
Progress = Callable[[int], object]
Run = Callable[[Sequence[str], Settings, Progress], list[Translation]]

SHORT = 256  # characters of a text that any other short one may join
OVERHEAD = 20  # characters that an empty text counts in the queue
LONGEST_PAUSE = 60  # seconds that a client is told to stay away, at most


class QueueFull(Exception):
    """There is no room for further texts; `seconds` says when to come again."""

    def __init__(self, seconds: int):
        super().__init__(seconds)
        self.seconds = seconds


class _Abandoned(Exception):
    """Whoever asked for the texts of a batch has gone."""


@dataclass(eq=False)
class Job:
    """A text that waits.

    Attributes:
        kind: texts of one kind may share a batch: their settings and about how long they are.
    """

    client: str
    text: str
    settings: Settings
    kind: tuple[str, int]
    answer: asyncio.Future[Translation]

    @property
    def size(self) -> int:
        return len(self.text) + OVERHEAD


class Batcher:
    """Joins texts into batches: of equal settings and like length, a text of each client in turn.

    Args:
        run: translates texts with some settings; calls its last argument now and then.
        workers: batches that run at the same time, each in a thread.
        batch: texts of a batch.
        wait: seconds that a text waits for others while a worker is idle.
        queue: characters that may wait.
        ran: is told of each batch how many texts it had and the seconds it took.
    """

    def __init__(
        self,
        run: Run,
        *,
        workers: int = 1,
        batch: int = 64,
        wait: float = 0.005,
        queue: int = 400_000,
        ran: Callable[[int, float], object] = lambda texts, seconds: None,
    ):
        self.waiting = 0  # characters
        self._run, self._ran = run, ran
        self._batch, self._wait, self._room = batch, wait, queue
        self._speed = 500.0  # characters in a second, before any was measured
        self._queues: dict[str, list[Job]] = {}  # of clients, in the order of their turns
        self._arrived = asyncio.Event()
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix="translate")
        self._workers = [asyncio.create_task(self._work()) for _ in range(workers)]

    def submit(
        self, client: str, texts: Sequence[str], settings: Settings
    ) -> list[asyncio.Future[Translation]]:
        """Futures of the translations; one that is cancelled frees its place.

        Raises:
            QueueFull: they do not fit into the queue.
        """
        key = json.dumps(settings)
        jobs = [
            Job(client, text, settings, (key, (len(text) // SHORT).bit_length()),
                asyncio.get_running_loop().create_future())
            for text in texts
        ]  # fmt: skip
        size = sum(job.size for job in jobs)
        if self.waiting and self.waiting + size > self._room:
            seconds = math.ceil(self.waiting / self._speed)
            raise QueueFull(min(max(seconds, 1), LONGEST_PAUSE))
        for job in jobs:
            self._queues.setdefault(client, []).append(job)
            job.answer.add_done_callback(lambda _, job=job: self._leave(job))  # type: ignore[misc]
        self.waiting += size
        if jobs:
            self._arrived.set()
        return [job.answer for job in jobs]

    @property
    def full(self) -> bool:
        return self.waiting >= self._room

    async def close(self) -> None:
        """End the workers; what still waits is never answered."""
        for worker in self._workers:
            worker.cancel()
        await asyncio.gather(*self._workers, return_exceptions=True)
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _leave(self, job: Job) -> None:
        """Take a job out of the queue, if it is still there."""
        jobs = self._queues.get(job.client, [])
        if job not in jobs:
            return
        jobs.remove(job)
        self.waiting -= job.size
        if not jobs:
            del self._queues[job.client]
        if not self._queues:
            self._arrived.clear()

    def _take(self) -> list[Job]:
        """A batch of the kind whose turn it is, none if nobody waits any more."""
        batch: list[Job] = []
        if not self._queues:
            return batch
        first = next(iter(self._queues))
        kind = self._queues[first][0].kind
        found = True
        while found and len(batch) < self._batch:
            found = False
            for client in list(self._queues)[: self._batch - len(batch)]:
                job = next((job for job in self._queues[client] if job.kind == kind), None)
                if job is not None:
                    self._leave(job)
                    batch.append(job)
                    found = True
        if first in self._queues:  # others come first now
            self._queues[first] = self._queues.pop(first)
        return batch

    async def _work(self) -> None:
        while True:
            await self._arrived.wait()
            if sum(map(len, self._queues.values())) < self._batch:
                await asyncio.sleep(self._wait)
            if batch := self._take():
                await self._answer(batch)

    async def _answer(self, batch: Sequence[Job]) -> None:
        def check(_: int) -> None:
            if all(job.answer.done() for job in batch):
                raise _Abandoned

        texts, started = [job.text for job in batch], time.perf_counter()
        run = asyncio.get_running_loop().run_in_executor
        try:
            found = await run(self._pool, self._run, texts, batch[0].settings, check)
        except _Abandoned:
            return
        except Exception as error:
            if len(batch) > 1 and not isinstance(error, UserError):  # one text may be at fault
                for job in batch:
                    await self._answer([job])
            else:
                for job in batch:
                    if not job.answer.done():
                        job.answer.set_exception(error)
            return
        seconds = time.perf_counter() - started
        size = sum(job.size for job in batch)
        self._speed += 0.2 * (size / max(seconds, 1e-6) - self._speed)
        self._ran(len(batch), seconds)
        for job, one in zip(batch, found, strict=True):
            if not job.answer.done():
                job.answer.set_result(one)
