"""The service that all APIs share: it checks clients, chooses a model and translates."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from starlette.concurrency import run_in_threadpool

from seq2seq.data.cleaning import language_detector
from seq2seq.documents.html import places
from seq2seq.documents.text import spliced
from seq2seq.inference.text.language import LANGUAGES, foreign
from seq2seq.inference.translation import Translation
from seq2seq.serving.batcher import Batcher, Progress, Settings
from seq2seq.serving.glossaries import Glossaries
from seq2seq.serving.limits import Client, Keys, Limits, Refused
from seq2seq.serving.models import Model

Result = TypeVar("Result")
NAMES = {"en": "English", **LANGUAGES}
READ = 2000  # characters at the start of a text that language detection reads
SURE = 0.8  # a less probable language is unsure


class Service:
    """The models, each with its batcher. Create it inside the event loop that runs the batchers.

    Args:
        models: the first model with the requested languages answers.
        workers: batches of a model that run at the same time.
    """

    def __init__(self, models: Sequence[Model], limits: Limits, keys: Keys, glossaries: Glossaries,
                 registry: CollectorRegistry, workers: int = 1):  # fmt: skip
        self.models = {one.name: one for one in models}
        self.limits, self.keys, self.glossaries = limits, keys, glossaries
        self._threads = asyncio.Semaphore(workers)  # limits the work outside the batchers
        own: dict[str, Any] = {"namespace": "seq2seq", "registry": registry}
        self._characters = Counter("characters", "Characters translated", ["model"], **own)
        self._batches = Histogram("batch_texts", "Texts of a batch", **own,
                                  buckets=(1, 2, 4, 8, 16, 32, 64, 128))  # fmt: skip
        self._batchers = {
            one.name: Batcher(partial(self._run, one), workers=workers, batch=limits.batch,
                              wait=limits.wait / 1000, queue=limits.queue) for one in models
        }  # fmt: skip
        waiting = Gauge("waiting_characters", "In queues", **own)
        waiting.set_function(lambda: sum(one.waiting for one in self._batchers.values()))

    def _run(
        self, model: Model, texts: Sequence[str], settings: Settings, progress: Progress
    ) -> list[Translation]:
        self._batches.observe(len(texts))
        return model.run(texts, settings, progress)

    async def close(self) -> None:
        """Close all batchers."""
        await asyncio.gather(*(one.close() for one in self._batchers.values()))

    @property
    def full(self) -> bool:
        """Whether the queue of a model is so full that it refuses most requests."""
        return any(one.waiting >= 0.9 * self.limits.queue for one in self._batchers.values())

    # Languages

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """The language pairs (source, target) of the models, each once."""
        return list(dict.fromkeys(one.languages for one in self.models.values()))

    def choose(self, source: str, target: str | None, name: str | None = None) -> Model:
        """Return the first model of these languages, or the named model if it has them.

        Args:
            target: None accepts any target language.

        Raises:
            Refused: no model fits.
        """
        known = {None, *(language for pair in self.pairs for language in pair)}
        for language in (source, target):
            if language not in known:
                raise Refused(400, f"{language} is not supported")
        for one in self.models.values():
            fits = one.languages[0] == source and target in (None, one.languages[1])
            if fits and name in (None, one.name):
                return one
        if name is not None and name not in self.models:
            raise Refused(400, f"there is no model {name}")
        goal, origin = (f"{NAMES.get(code, code)} ({code})" for code in (target or "any", source))
        raise Refused(400, f"{goal} is not available as a target language from {origin}")

    def detect(self, text: str) -> list[tuple[str, float]]:
        """Return up to three languages of a text with their probabilities, the likeliest first.

        If the likeliest is unsure (below `SURE`), the source language of a model comes first,
        unless the text is surely in another language.
        """
        text = text[:READ]
        ranks = [(code, share) for code, share in language_detector().rank(text) if code in NAMES]
        whole = sum(share for _, share in ranks)
        own = next((source for source, _ in self.pairs if not foreign(text, source)), None)
        ranks.sort(key=lambda one: -one[1])
        if ranks[0][1] < SURE * whole:
            ranks.sort(key=lambda one: one[0] != own)
        return [(code, float(share / whole)) for code, share in ranks[:3]]

    # Requests

    def client(self, key: str | None, address: str) -> Client:
        """Return the client of a request, by its key or its address, and count the request.

        Raises:
            Refused: the key is wrong or missing, or the client asks too often.
        """
        client = self.keys.find(key, address)
        if client is None:
            raise Refused(403, "Invalid API key" if key else
                          "Please contact the server operator to get an API key")  # fmt: skip
        if seconds := client.wait():
            raise Refused(429, f"Slowdown: more than {client.rate} requests in a minute", seconds)
        return client

    @contextmanager
    def charge(self, client: Client, texts: Sequence[str]) -> Iterator[None]:
        """Add the characters of a request's texts to the client's use; an error takes them back.

        Raises:
            Refused: the request has too many characters or texts, or exceeds the client's quota.
        """
        size = sum(map(len, texts))
        bounds = (size, self.limits.characters, ""), (len(texts), self.limits.texts, " texts")
        for number, most, unit in bounds:
            if number > most:
                raise Refused(413, f"Invalid request: request ({number}{unit}) exceeds text limit "
                                   f"({most}{unit})")  # fmt: skip
        if client.used + size > client.quota:
            raise Refused(456, f"Quota exceeded: {client.quota} characters")
        client.used += size
        try:
            yield
        except Exception:
            client.used -= size
            raise

    def submit(
        self, client: Client, model: Model, texts: Sequence[str], settings: dict[str, Any]
    ) -> list[asyncio.Future[Translation]]:
        """Queue texts and return the futures of their translations, in order.

        Cancel a future whose translation is no longer wanted. `charge` bounds and counts the texts.

        Raises:
            Refused: the queue is full.
        """
        answers = self._batchers[model.name].submit(client.name, texts, settings)
        self._characters.labels(model.name).inc(sum(map(len, texts)))
        return answers

    async def translate(
        self, client: Client, model: Model, texts: Sequence[str], settings: dict[str, Any]
    ) -> list[Translation]:
        """Translate texts; raises what `submit` and the translator raise."""
        answers = self.submit(client, model, texts, settings)
        try:
            return list(await asyncio.gather(*answers))
        finally:
            for answer in answers:
                answer.cancel()

    async def translate_html(
        self, client: Client, model: Model, texts: Sequence[str], settings: dict[str, Any]
    ) -> list[Translation]:
        """Translate HTML pages or parts of them as documents are translated; see `translate`."""
        pages = await self.in_thread(
            lambda: [spliced(text, list(places(text)), str.encode) for text in texts]
        )
        pieces = [piece for page in pages for piece in page.texts]
        made = iter(await self.translate(client, model, pieces, settings))
        written = await self.in_thread(
            lambda: [page.write([next(made).text for _ in page.texts]) for page in pages]
        )
        return [Translation(page.decode(), None) for page in written]

    async def in_thread(self, work: Callable[[], Result]) -> Result:
        """Run work in a thread, outside the batchers, at most `workers` at the same time.

        Work whose client has disconnected still runs, and holds its place until it ends.
        """
        await self._threads.acquire()
        task = asyncio.ensure_future(run_in_threadpool(work))
        task.add_done_callback(lambda _: self._threads.release())
        return await asyncio.shield(task)
