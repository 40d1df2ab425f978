"""A batcher: texts that wait, from whichever connection, are translated together.

A translation does not depend on its batch, so joining texts changes nothing but the time they take.
All state belongs to the event loop; only `run` is called in other threads.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain, islice, zip_longest
from typing import Any

from seq2seq.inference.translation import Translation
from seq2seq.serving.limits import Refused

Settings = Mapping[str, Any]
Progress = Callable[[int], object]
Run = Callable[[Sequence[str], Settings, Progress], list[Translation]]
Kind = tuple[str, int]  # texts of one kind may share a batch: their settings, and how long they are

SHORT = 1024  # characters of a text that any other short one may join
SHARE = 0.1  # of the time of a batch that may pass while the next one fills
OVERHEAD = 20  # characters that an empty text counts in the queue
LONGEST_PAUSE = 60  # seconds that a client is told to stay away, at most


class _Abandoned(Exception):
    """All clients of a batch have gone."""


@dataclass(eq=False)
class Job:
    """A text that waits."""

    client: str
    kind: Kind
    text: str
    settings: Settings
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
        wait: seconds that a worker waits for further texts; see `_wait_for_others`.
        queue: characters that may wait.
    """

    def __init__(self, run: Run, *, workers: int = 1, batch: int = 64, wait: float = 0.005,
                 queue: int = 400_000):  # fmt: skip
        self.waiting = 0  # characters
        self._run, self._batch, self._wait, self._room = run, batch, wait, queue
        self._speed = 500.0  # characters in a second, before any was measured
        self._took, self._expected = 0.0, 1  # seconds of a batch; texts that waited for the last
        # The jobs of each client and kind, in the order of their turns. A dict finds a job that
        # leaves at once.
        self._queues: OrderedDict[tuple[str, Kind], dict[Job, None]] = OrderedDict()
        self._arrived = asyncio.Event()
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix="translate")
        self._workers = [asyncio.create_task(self._work()) for _ in range(workers)]

    def submit(
        self, client: str, texts: Sequence[str], settings: Settings
    ) -> list[asyncio.Future[Translation]]:
        """Futures of the translations; one that is cancelled frees its place.

        Raises:
            Refused: they do not fit into the queue.
        """
        key, new = json.dumps(settings), asyncio.get_running_loop().create_future
        jobs = [Job(client, (key, (len(text) // SHORT).bit_length()), text, settings, new())
                for text in texts]  # fmt: skip
        size = sum(job.size for job in jobs)
        if self.waiting and self.waiting + size > self._room:
            raise Refused(503, "The server is busy, as too many texts wait: try again later",
                          min(self.waiting / self._speed, LONGEST_PAUSE))  # fmt: skip
        for job in jobs:
            self._queues.setdefault((client, job.kind), {})[job] = None
            job.answer.add_done_callback(lambda _, job=job: self._leave(job))  # type: ignore[misc]
            self._arrived.set()
        self.waiting += size
        return [job.answer for job in jobs]

    async def close(self) -> None:
        """End the workers; what waits or runs is cancelled."""
        for job in list(chain.from_iterable(self._queues.values())):
            job.answer.cancel()
        for worker in self._workers:
            worker.cancel()
        await asyncio.gather(*self._workers, return_exceptions=True)
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _leave(self, job: Job) -> None:
        """Take a job out of the queue, if it is still there."""
        place = job.client, job.kind
        jobs = self._queues.get(place, {})
        if job in jobs:
            del jobs[job]
            self.waiting -= job.size
            if not jobs:
                del self._queues[place]
        if not self._queues:
            self._arrived.clear()

    def _take(self) -> list[Job]:
        """A batch of the kind whose turn it is, none if nobody waits any more."""
        if not self._queues:
            return []
        self._expected = self._count()
        client, kind = first = next(iter(self._queues))
        sharing = [jobs for (_, other), jobs in self._queues.items() if other == kind]
        in_turn = (job for turn in zip_longest(*sharing) for job in turn if job is not None)
        batch = list(islice(in_turn, self._batch))
        for job in batch:
            self._leave(job)
        # Other clients come first now, then other kinds of this client.
        others = [place for place in self._queues if place[0] == client and place != first]
        for place in [*others, first]:
            if place in self._queues:
                self._queues.move_to_end(place)
        return batch

    async def _work(self) -> None:
        while True:
            await self._arrived.wait()
            await self._wait_for_others()
            if batch := self._take():
                await self._answer(batch)

    async def _wait_for_others(self) -> None:
        """Wait until as many texts are there as at the last batch, or for a share of its time.

        Who was just answered asks again. Without them every other batch would be half full, and a
        token of a small batch costs more.
        """
        end = time.monotonic() + SHARE * self._took
        while self._count() < self._batch:
            await asyncio.sleep(self._wait)
            if self._count() >= self._expected or time.monotonic() > end:
                break

    def _count(self) -> int:
        """Texts that wait."""
        return sum(map(len, self._queues.values()))

    async def _answer(self, batch: Sequence[Job]) -> None:
        def check(_: int) -> None:
            if all(job.answer.done() for job in batch):
                raise _Abandoned

        texts, started = [job.text for job in batch], time.perf_counter()
        run = asyncio.get_running_loop().run_in_executor
        try:
            found = await run(self._pool, self._run, texts, batch[0].settings, check)
            answers = list(zip(batch, found, strict=True))
        except _Abandoned:
            return
        except asyncio.CancelledError:  # by `close`: the thread ends as soon as it looks
            for job in batch:
                job.answer.cancel()
            raise
        except Exception as error:
            left = [job for job in batch if not job.answer.done()]
            if len(batch) > 1:  # one text may be at fault, which must not be felt by others
                for job in left:
                    await self._answer([job])
            elif left:
                left[0].answer.set_exception(error)
            return
        took = max(time.perf_counter() - started, 1e-6)
        self._took += 0.2 * (took - self._took)
        self._speed += 0.2 * (sum(job.size for job in batch) / took - self._speed)
        for job, one in answers:
            if not job.answer.done():
                job.answer.set_result(one)
