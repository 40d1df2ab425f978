"""The web application: it joins the routes of all APIs, the pages, headers, metrics and log."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Histogram,
    ProcessCollector,
    generate_latest,
)
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route as StarletteRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from seq2seq.data.cleaning import language_detector
from seq2seq.serving import api, deepl, libretranslate
from seq2seq.serving.glossaries import Glossaries
from seq2seq.serving.limits import Keys, Limits, Refused
from seq2seq.serving.models import Model
from seq2seq.serving.openapi import document
from seq2seq.serving.routes import Route, write, write_fault
from seq2seq.serving.service import Service

PAGE = Path(__file__).with_name("page")
KINDS = {".html": "text/html", ".js": "text/javascript", ".css": "text/css"}
# Advice of OWASP's secure headers project for pages that embed nothing and are embedded nowhere.
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
RAW_HEADERS = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
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
    """Make the web application.

    Args:
        models: at least one; the first model with the requested languages answers.
        keys: of the clients; None: anybody may ask.
        workers: batches of a model that run at the same time.
        origins: other sites whose pages may use the server from a browser (CORS); "*" for any.
    """
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)

    @asynccontextmanager
    async def running(app: Starlette) -> AsyncIterator[None]:
        await asyncio.to_thread(language_detector)  # loading it takes half a second
        app.state.service = Service(models, limits, keys or Keys(None, limits.rate),
                                    glossaries or Glossaries(), registry, workers)  # fmt: skip
        app.state.origins = origins
        yield
        await app.state.service.close()

    middleware = [Middleware(_Observed, registry=registry, timeout=limits.timeout)]
    if origins:
        middleware.append(Middleware(
            CORSMiddleware, allow_origins=list(origins), allow_methods=["*"],
            allow_headers=["authorization", "content-type"],
            expose_headers=["retry-after", "content-disposition"],
        ))  # fmt: skip
    return Starlette(
        routes=[*_apis(), *_fixed(), *_operation(registry)],
        lifespan=running,
        exception_handlers={Refused: _refuse, HTTPException: _refuse},
        middleware=middleware,
    )


# Routes


def _apis() -> list[StarletteRoute]:
    """Make a route per path: other methods than those of the path get 405 and a list of these."""
    methods: dict[str, dict[str, Route]] = {}
    for route in APIS:
        methods.setdefault(route.path, {})[route.method] = route
    return [StarletteRoute(path, partial(_answer, routes=routes), methods=list(routes))
            for path, routes in methods.items()]  # fmt: skip


async def _answer(request: Request, routes: Mapping[str, Route]) -> Response:
    _check_site(request)
    route = routes["GET" if request.method == "HEAD" else request.method]
    try:
        return await route.respond(request.app.state.service, request)
    except (Refused, HTTPException):
        raise
    except Exception as error:
        write_fault(route.path, error)
        raise Refused(500, "The server failed: its log says where") from error


def _check_site(request: Request) -> None:
    """Refuse what a browser sends for a page of another site, unless CORS allows that page.

    A page of any site can reach a server on its visitor's machine, which needs no key.
    """
    origins = request.app.state.origins
    cross_site = request.headers.get("sec-fetch-site") == "cross-site"
    if cross_site and "*" not in origins and request.headers.get("origin") not in origins:
        raise Refused(403, "Pages of other sites may not use this server unless --cors allows them")


async def _refuse(request: Request, error: Exception) -> Response:
    """Answer a refusal, ours or Starlette's (unknown paths or methods, damaged forms).

    DeepL's API calls the reason `message`, all others `error`.
    """
    assert isinstance(error, Refused | HTTPException)
    path, detail = request.url.path, error.detail
    if isinstance(error, HTTPException) and error.status_code == 404:
        detail = f"{path} is not served here: see /openapi.json"
    name = "message" if path.startswith(("/v2/", "/v3/")) else "error"
    return JSONResponse({name: detail}, error.status_code, error.headers)


def _fixed() -> list[StarletteRoute]:
    """Make the routes whose answers are always the same."""
    answers: dict[str, Response] = {
        "/livez": PlainTextResponse("ok\n"),
        "/openapi.json": JSONResponse(document(APIS)),
    }
    for file in (file for file in PAGE.iterdir() if file.suffix in KINDS):
        path = "/" if file.name == "index.html" else f"/{file.name.removesuffix('.html')}"
        answers[path] = Response(file.read_bytes(), media_type=KINDS[file.suffix])
    return [StarletteRoute(path, answer, methods=["GET"]) for path, answer in answers.items()]


def _operation(registry: CollectorRegistry) -> list[StarletteRoute]:
    """Make the routes for operators: load and metrics."""

    async def ready(request: Request) -> Response:
        full = request.app.state.service.full
        return PlainTextResponse("busy\n" if full else "ok\n", 503 if full else 200)

    async def metrics(request: Request) -> Response:
        return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)

    return [StarletteRoute("/readyz", ready), StarletteRoute("/metrics", metrics)]


class _Observed:
    """Middleware that adds the headers, and counts and logs requests.

    It logs no text, and of the path only the route, such as /v2/glossaries/{glossary_id}.

    Args:
        timeout: seconds that a client may take to read a part of an answer.
    """

    def __init__(self, app: ASGIApp, registry: CollectorRegistry, timeout: float):
        self._app, self._timeout = app, timeout
        self._seconds = Histogram("seq2seq_request_seconds", "Time of a request",
                                  ["path", "status"], registry=registry)  # fmt: skip

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started, status = time.perf_counter(), 500

        async def sent(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message = {**message, "headers": [*message.get("headers", []), *RAW_HEADERS]}
            # Without a limit, uvicorn waits for ever for a client that does not read.
            async with asyncio.timeout(self._timeout):
                await send(message)

        try:
            await self._app(scope, receive, sent)
        except (TimeoutError, ClientDisconnect):
            status = 499  # uvicorn closes the connection, as the answer is incomplete
        finally:
            seconds = time.perf_counter() - started
            path = getattr(scope.get("route"), "path", "other")
            self._seconds.labels(path, status).observe(seconds)
            client = (scope.get("client") or [""])[0]
            write(logging.INFO, "request", method=scope["method"], path=path, status=status,
                  seconds=round(seconds, 4), client=client)  # fmt: skip
