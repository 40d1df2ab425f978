"""What all APIs share: who may ask, what may be asked, and the translations."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector
from starlette.requests import Request

from seq2seq.inference.translation import Translation
from seq2seq.serving.batcher import QueueFull
from seq2seq.serving.glossaries import Glossaries
from seq2seq.serving.keys import Client, Keys
from seq2seq.serving.models import Model, Models
from seq2seq.serving.settings import Limits

SCHEMES = ("bearer ", "deepl-auth-key ")


class Refused(Exception):
    """A request that is not answered: the status and why; `seconds` after which to come again."""

    def __init__(self, status: int, message: str, seconds: float | None = None):
        super().__init__(message)
        self.status, self.message = status, message
        self.headers = {} if seconds is None else {"Retry-After": str(math.ceil(seconds))}


class Metrics:
    """What Prometheus reads."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        own: dict[str, Any] = {"namespace": "seq2seq", "registry": self.registry}
        self.requests = Counter("requests", "Requests", ["path", "status"], **own)
        self.seconds = Histogram("request_seconds", "Time of a request", ["path"], **own)
        self.characters = Counter("characters", "Characters translated", ["model"], **own)
        self.batches = Histogram("batch_texts", "Texts of a batch", **own,
                                 buckets=(1, 2, 4, 8, 16, 32, 64, 128))  # fmt: skip
        self.busy = Counter("batch_seconds", "Time of batches", **own)
        self.refused = Counter("refused", "Requests that found the queue full", **own)

    def ran(self, texts: int, seconds: float) -> None:
        """Count a batch."""
        self.batches.observe(texts)
        self.busy.inc(seconds)


@dataclass
class Service:
    """What stands behind all routes."""

    models: Models
    limits: Limits
    keys: Keys
    glossaries: Glossaries
    metrics: Metrics = field(default_factory=Metrics)

    def client(self, request: Request, key: str | None) -> Client:
        """Who asks.

        Raises:
            Refused: the key is wrong, or the client asks too often.
        """
        given = request.headers.get("authorization", "")
        for scheme in SCHEMES:
            if given.lower().startswith(scheme):
                key = given[len(scheme) :].strip()
        address = request.client.host if request.client else ""
        client = self.keys.find(key, address)
        if client is None and key:
            raise Refused(403, "Invalid API key")
        if client is None:
            raise Refused(403, "Please contact the server operator to get an API key")
        if seconds := client.wait():
            raise Refused(429, f"Slowdown: more than {client.rate} requests in a minute", seconds)
        return client

    def submit(
        self, client: Client, model: Model, texts: Sequence[str], settings: dict[str, Any]
    ) -> list[asyncio.Future[Translation]]:
        """Futures of translations, in order; whoever does not want one any more cancels it.

        Raises:
            Refused: it is too much for one request, for the client or for now.
        """
        size = sum(map(len, texts))
        if size > self.limits.characters:
            most = self.limits.characters
            raise Refused(
                413, f"Invalid request: request ({size}) exceeds text limit ({most})"
            )
        if len(texts) > self.limits.texts:
            raise Refused(400, f"Invalid request: request ({len(texts)} texts) exceeds text limit "
                               f"({self.limits.texts} texts)")  # fmt: skip
        if client.used + size > client.quota:
            raise Refused(456, f"Quota exceeded: {client.quota} characters")
        try:
            batcher = self.models.batchers[model.name]
            answers = batcher.submit(client.name, texts, settings)
        except QueueFull as full:
            self.metrics.refused.inc()
            raise Refused(
                503, "The server is busy, as too many texts wait: try again later", full.seconds
            ) from full
        client.used += size
        self.metrics.characters.labels(model.name).inc(size)
        return answers

    async def translate(
        self, client: Client, model: Model, texts: Sequence[str], settings: dict[str, Any]
    ) -> list[Translation]:
        """The translations; raises what `submit` and the translator raise."""
        answers = self.submit(client, model, texts, settings)
        try:
            return list(await asyncio.gather(*answers))
        finally:
            for answer in answers:
                answer.cancel()
