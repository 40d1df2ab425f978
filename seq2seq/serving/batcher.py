"""The batcher translates waiting texts of all connections together.

A translation does not depend on its batch, so joining texts changes only the time that they take.
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
Kind = tuple[str, int]  # settings and class of length; equal kinds share a batch

SHORT = 1024  # texts of fewer characters are all of one class of length
SHARE = 0.1  # the next batch may fill for this share of the time that a batch takes
OVERHEAD = 20  # characters that each text counts in the queue besides its own
LONGEST_PAUSE = 60  # upper limit of Retry-After, in seconds


class _Abandoned(Exception):
    """No client waits for a batch any more: all of its futures are done."""


@dataclass(eq=False)
class Job:
    """A waiting text."""

    client: str
    kind: Kind
    text: str
    settings: Settings
    answer: asyncio.Future[Translation]

    @property
    def size(self) -> int:
        return len(self.text) + OVERHEAD


class Batcher:
    """Joins texts of equal settings and similar length into batches, taking clients in turn.

    Args:
        run: translates texts with some settings. It calls its last argument now and then, which
            stops it if no client waits for the batch any more.
        workers: batches that run at the same time, each in a thread.
        batch: most texts in a batch.
        wait: seconds between two looks at the queue while a batch fills (`_wait_for_others`).
        queue: characters that may wait.
    """

    def __init__(self, run: Run, *, workers: int = 1, batch: int = 64, wait: float = 0.005,
                 queue: int = 400_000):  # fmt: skip
        self.waiting = 0  # characters
        self._run, self._batch, self._wait, self._room = run, batch, wait, queue
        self._speed = 500.0  # characters per second; this is a guess until one is measured
        self._took, self._expected = 0.0, 1  # seconds of a batch; texts waiting at the last
        # The jobs of each client and kind, in the order of their turns. A dict, because a job can
        # be removed from it in constant time.
        self._queues: OrderedDict[tuple[str, Kind], dict[Job, None]] = OrderedDict()
        self._arrived = asyncio.Event()
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix="translate")
        self._workers = [asyncio.create_task(self._work()) for _ in range(workers)]

    def submit(
        self, client: str, texts: Sequence[str], settings: Settings
    ) -> list[asyncio.Future[Translation]]:
        """Queue texts and return the futures of their translations, in order.

        Cancelling a future removes its text from the queue.

        Raises:
            Refused: the texts do not fit into the queue.
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
        """Stop the workers, and cancel all waiting and running jobs."""
        for job in list(chain.from_iterable(self._queues.values())):
            job.answer.cancel()
        for worker in self._workers:
            worker.cancel()
        await asyncio.gather(*self._workers, return_exceptions=True)
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _leave(self, job: Job) -> None:
        """Remove a job from the queue if it is still there."""
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
        """Take a batch of the kind whose turn it is; empty if no text waits."""
        if not self._queues:
            return []
        self._expected = self._count()
        client, kind = first = next(iter(self._queues))
        sharing = [jobs for (_, other), jobs in self._queues.items() if other == kind]
        in_turn = (job for turn in zip_longest(*sharing) for job in turn if job is not None)
        batch = list(islice(in_turn, self._batch))
        for job in batch:
            self._leave(job)
        # Next come other clients, then other kinds of this client, then this kind.
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
        """Wait until as many texts wait as at the last batch, or for `SHARE` of a batch's time.

        Clients that were just answered soon ask again. Without this pause their texts would miss
        the next batch, every other batch would be half full, and small batches cost more per token.
        """
        end = time.monotonic() + SHARE * self._took
        while self._count() < self._batch:
            await asyncio.sleep(self._wait)
            if self._count() >= self._expected or time.monotonic() > end:
                break

    def _count(self) -> int:
        """Count the waiting texts."""
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
        except asyncio.CancelledError:  # by `close`: the thread stops at its next call of `check`
            for job in batch:
                job.answer.cancel()
            raise
        except Exception as error:
            left = [job for job in batch if not job.answer.done()]
            if len(batch) > 1:  # one text may be at fault: the others get their answers alone
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
