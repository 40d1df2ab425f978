"""A route: what it takes and gives, and the way of a request from its body to its answer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any

from pydantic import BaseModel, TypeAdapter, ValidationError
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.types import Message

from seq2seq.errors import UserError
from seq2seq.serving.keys import Client
from seq2seq.serving.models import NAMES, Detected, NoModel, UnknownLanguage
from seq2seq.serving.service import Refused, Service

FORMS = ("application/x-www-form-urlencoded", "multipart/form-data")
FIELDS = 1000  # of a form


@dataclass(frozen=True)
class Call:
    """A request whose sender is known and whose body was read."""

    service: Service
    client: Client
    request: Request
    body: Any


@dataclass(frozen=True)
class Route:
    """One path of an API.

    Attributes:
        path: with its parameters in braces.
        says: what it does.
        answer: makes an answer; None is one without content.
        takes: what the body must be (JSON or a form), or the query of a GET.
        gives: type of the answer.
        status: of a good answer.
        open: whether it answers without a key.
        listed: whether the OpenAPI document has it.
    """

    method: str
    path: str
    says: str
    answer: Callable[[Call], Awaitable[Any]]
    takes: type[BaseModel] | None = None
    gives: Any = None
    status: int = 200
    open: bool = False
    listed: bool = True

    async def __call__(self, service: Service, request: Request) -> Response:
        """Answer, or stop as soon as the client has gone or the time is over.

        Raises:
            Refused: why there is no answer.
        """
        seconds = service.limits.timeout
        try:
            async with asyncio.timeout(seconds):
                given = await _read(request, service.limits.body) if self.takes else {}
                work = asyncio.ensure_future(self._answered(service, request, given))
                gone = asyncio.ensure_future(_gone(request))
                try:
                    await asyncio.wait({work, gone}, return_when=asyncio.FIRST_COMPLETED)
                    if not work.done():
                        raise ClientDisconnect
                    return work.result()
                finally:
                    work.cancel()
                    gone.cancel()
                    with suppress(asyncio.CancelledError):
                        await gone
        except TimeoutError:
            raise Refused(504, f"The answer would take more than {seconds:g} seconds") from None
        except ClientDisconnect:
            return Response(status_code=499)  # nobody reads it; the log does
        except UnknownLanguage as error:
            raise Refused(400, f"{error.code} is not supported") from error
        except NoModel as error:
            raise Refused(400, "{} ({}) is not available as a target language from {} ({})".format(
                *(part for code in (error.target, error.source)
                  for part in (NAMES.get(code, code), code)))) from error  # fmt: skip
        except UserError as error:
            raise Refused(400, f"Invalid request: {error}") from error

    async def _answered(self, service: Service, request: Request, given: Any) -> Response:
        key = given.get("api_key", given.get("auth_key")) if isinstance(given, dict) else None
        client = Client("", 0) if self.open else (
            service.client(request, key if isinstance(key, str) else None))  # fmt: skip
        try:
            body = self.takes.model_validate(given) if self.takes else None
        except ValidationError as error:
            raise Refused(400, explained(error)) from error
        found = await self.answer(Call(service, client, request, body))
        if isinstance(found, Response):
            return found
        if found is None:
            return Response(status_code=204)
        written = _writer(self.gives).dump_json(found, exclude_none=True)
        return Response(written, self.status, media_type="application/json")


_writer = cache(TypeAdapter)  # making one takes longer than using it


def explained(error: ValidationError) -> str:
    """The first thing that is wrong, without what was sent."""
    first = error.errors(include_url=False, include_input=False)[0]
    place = ".".join(str(part) for part in first["loc"])
    if first["type"] in ("missing", "string_too_short", "too_short"):
        return f"Invalid request: missing {place.split('.')[0]} parameter"
    return f"Invalid request: {place}: {first['msg']}" if place else "Invalid JSON format"


def error_response(path: str, refused: Refused) -> Response:
    """An error as the clients of an API read it: DeepL's in `message`, all others in `error`."""
    name = "message" if path.startswith(("/v2/", "/v3/")) else "error"
    return JSONResponse({name: refused.message}, refused.status, refused.headers)


async def _gone(request: Request) -> None:
    """Returns when the client has gone; its body was read before."""
    message: Message = {}
    while message.get("type") != "http.disconnect":
        message = await request.receive()


async def _read(request: Request, most: int) -> Any:
    """What was sent as JSON, a form or a query: an object, as a rule.

    Raises:
        Refused: it is too large, or not what it says it is.
    """
    body = await _body(request, most)
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind in FORMS:
        request._body = body  # as `Request.body` would keep it
        async with request.form(max_files=0, max_fields=FIELDS) as form:
            names = {name: form.getlist(name) for name in form}
        texts = {name: [str(one).replace("\r\n", "\n") for one in all_of]
                 for name, all_of in names.items()}  # fmt: skip
        return {name: all_of if len(all_of) > 1 else all_of[0] for name, all_of in texts.items()}
    if request.method in ("GET", "DELETE"):
        return dict(request.query_params)
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise Refused(400, "Invalid JSON format") from error


async def _body(request: Request, most: int) -> bytes:
    too_large = Refused(413, f"The body has more than {most} bytes: send less at once")
    length = request.headers.get("content-length", "0")
    if not length.isdecimal() or int(length) > most:
        raise too_large
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > most:
            raise too_large
        parts.append(part)
    return b"".join(parts)


async def detected(service: Service, text: str) -> list[Detected]:
    """`Models.detect` in a thread, since the first text loads the detector."""
    return await run_in_threadpool(service.models.detect, text)
