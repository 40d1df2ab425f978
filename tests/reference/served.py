"""Servers for tests: an application on a free port, and a translator that answers when it is told.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn

from seq2seq.errors import UserError
from seq2seq.inference.translation import Translation
from seq2seq.serving.app import make_app
from seq2seq.serving.limits import Limits
from seq2seq.serving.models import Model


class Held:
    """Translates to capitals, once it is let go; it remembers its batches."""

    languages = ("en", "fr")

    def __init__(self) -> None:
        self.go, self.batches = threading.Event(), list[list[str]]()

    def translate(self, texts, *, progress=None, **settings):
        self.batches.append(list(texts))
        while not self.go.wait(0.01):
            progress(0)
        if "poison" in texts:
            raise ValueError(f"a fault, with a text in its message: {texts}")
        if settings.get("prefix") == "impossible":
            raise UserError("a prefix that cannot be")
        return [Translation(text.upper(), -1.0) for text in texts]


def model_of(translator, name: str = "tiny") -> Model:
    return Model(name, translator, translator)


@contextmanager
def serving(
    *models: Model, limits: Limits | None = None, patience: int = 30, **how
) -> Iterator[str]:
    """The address of an application that runs in a thread; its requests end within `patience`."""
    app = make_app(models, limits or Limits(), **how)
    config = uvicorn.Config(
        app, "127.0.0.1", 0, log_config=None, lifespan="on", timeout_graceful_shutdown=patience
    )
    server = uvicorn.Server(config)
    socket = config.bind_socket()
    thread = threading.Thread(target=lambda: asyncio.run(server.serve([socket])), daemon=True)
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.01)
        yield "http://{}:{}".format(*socket.getsockname())
    finally:
        server.should_exit = True
        thread.join(60)
        assert not thread.is_alive(), "the server has not ended in a minute"
