"""The application: routes of all APIs, the page, headers, metrics, log; start and stop."""

from __future__ import annotations

import asyncio
import json
import logging
import time
import traceback
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from prometheus_client import CONTENT_TYPE_LATEST, Gauge, generate_latest
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route as StarletteRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from seq2seq.serving import api, deepl, libretranslate
from seq2seq.serving.glossaries import Glossaries
from seq2seq.serving.keys import Keys
from seq2seq.serving.models import Model, Models
from seq2seq.serving.openapi import document
from seq2seq.serving.routes import Route, error_response
from seq2seq.serving.service import Metrics, Refused, Service
from seq2seq.serving.settings import Limits

log = logging.getLogger("seq2seq.serving")

PAGE = Path(__file__).with_name("page")
# Files of the page by their paths; no other file is ever read for a request.
FILES = {"/": "index.html", "/attention": "attention.html"} | {
    f"/{name}": name for name in ("app.js", "attention.js", "common.js", "style.css")
}
# As OWASP's secure headers project advises for pages that embed nothing and are embedded nowhere.
HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "cache-control": "no-store",
}
APIS = [*api.ROUTES, *libretranslate.ROUTES, *deepl.ROUTES]


def make_app(
    models: Sequence[Model],
    limits: Limits,
    *,
    keys: Keys | None = None,
    glossaries: Glossaries | None = None,
    workers: int = 1,
    origins: Sequence[str] = (),
) -> Starlette:
    """The application.

    Args:
        models: at least one; the first with the languages that are asked for answers.
        keys: of the clients; None: anybody may ask.
        workers: batches of a model that run at the same time.
        origins: of pages elsewhere that may ask from a browser; "*" for any.
    """
    metrics = Metrics()

    @asynccontextmanager
    async def running(app: Starlette) -> AsyncIterator[None]:
        batching = {"batch": limits.batch, "wait": limits.wait / 1000, "queue": limits.queue}
        served = Models(models, workers=workers, ran=metrics.ran, **batching)
        waiting = Gauge("seq2seq_waiting_characters", "In queues", registry=metrics.registry)
        waiting.set_function(lambda: sum(one.waiting for one in served.batchers.values()))
        app.state.service = Service(
            served, limits, keys or Keys(None, limits.rate), glossaries or Glossaries(), metrics
        )
        yield
        app.state.service = None
        await asyncio.gather(*(one.close() for one in served.batchers.values()))

    return Starlette(
        routes=[*_paths(), *_pages(), *_operation()],
        lifespan=running,
        exception_handlers={HTTPException: _http},
        middleware=[Middleware(_Observed, metrics=metrics), *_cors(origins)],
    )


def _cors(origins: Sequence[str]) -> list[Middleware]:
    if not origins:
        return []
    return [Middleware(CORSMiddleware, allow_origins=list(origins), allow_methods=["*"],
                       allow_headers=["authorization", "content-type"])]  # fmt: skip


# Routes


def _paths() -> list[StarletteRoute]:
    """One for each path, whatever methods it has: any other gets 405 and the list of them."""
    methods: dict[str, dict[str, Route]] = {}
    for route in APIS:
        methods.setdefault(route.path, {})[route.method] = route
    return [StarletteRoute(path, partial(_answer, routes=routes), methods=list(routes))
            for path, routes in methods.items()]  # fmt: skip


async def _answer(request: Request, routes: Mapping[str, Route]) -> Response:
    route = routes["GET" if request.method == "HEAD" else request.method]
    try:
        return await route(request.app.state.service, request)
    except Refused as error:
        return error_response(route.path, error)
    except HTTPException:
        raise
    except Exception as error:
        _write(logging.ERROR, "fault", path=route.path, **_place(error))
        return error_response(route.path, Refused(500, "The server failed: its log says where"))


def _pages() -> list[StarletteRoute]:
    async def send(request: Request, content: bytes, kind: str) -> Response:
        return Response(content, media_type=kind)

    kinds = {".html": "text/html", ".js": "text/javascript", ".css": "text/css"}
    return [
        StarletteRoute(path, partial(send, content=file.read_bytes(), kind=kinds[file.suffix]))
        for path, file in ((path, PAGE / name) for path, name in FILES.items())
    ]


def _operation() -> list[StarletteRoute]:
    """For whoever runs the server."""
    described = document(APIS)

    async def alive(request: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def ready(request: Request) -> Response:
        batchers = request.app.state.service.models.batchers.values()
        full = any(one.full for one in batchers)
        return PlainTextResponse("busy\n" if full else "ok\n", 503 if full else 200)

    async def metrics(request: Request) -> Response:
        registry = request.app.state.service.metrics.registry
        return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)

    async def openapi(request: Request) -> Response:
        return JSONResponse(described)

    answers = {"livez": alive, "readyz": ready, "metrics": metrics, "openapi.json": openapi}
    return [StarletteRoute(f"/{name}", answer) for name, answer in answers.items()]


# Errors


async def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    response = error_response(request.url.path, Refused(error.status_code, error.detail))
    response.headers.update(error.headers or {})
    return response


def _place(error: Exception) -> dict[str, Any]:
    """Where a fault was; its message may hold a text, which no log is to have."""
    frames = traceback.extract_tb(error.__traceback__)[-5:]
    at = [f"{one.filename}:{one.lineno}" for one in frames]
    return {"kind": type(error).__name__, "at": at}


def _write(level: int, event: str, **fields: Any) -> None:
    """A line of the log."""
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    log.log(level, json.dumps({"time": now, "event": event, **fields}))


class _Observed:
    """Adds the headers, counts and logs: no text, and no path but that of a route."""

    def __init__(self, app: ASGIApp, metrics: Metrics):
        self._app, self._metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started, status = time.perf_counter(), 500

        async def sent(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                own = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
                message = {**message, "headers": [*message.get("headers", []), *own]}
            await send(message)

        try:
            await self._app(scope, receive, sent)
        finally:
            seconds = time.perf_counter() - started
            route = scope.get("route")
            path = getattr(route, "path", "other")
            self._metrics.requests.labels(path, status).inc()
            self._metrics.seconds.labels(path).observe(seconds)
            client = (scope.get("client") or [""])[0]
            _write(logging.INFO, "request", method=scope["method"], path=path, status=status,
                   seconds=round(seconds, 4), client=client)  # fmt: skip
