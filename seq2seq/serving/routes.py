"""Routes: how a request is read and checked, and how its answer or error is sent."""

from __future__ import annotations

import asyncio
import json
import logging
import traceback
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import BaseModel, InstanceOf, ValidationError, WithJsonSchema, model_validator
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.types import Message, Receive

from seq2seq.errors import UserError
from seq2seq.serving.limits import Client, Refused
from seq2seq.serving.service import Service

log = logging.getLogger("seq2seq.serving")

FORMS = ("application/x-www-form-urlencoded", "multipart/form-data")
SCHEMES = ("bearer", "deepl-auth-key")


@dataclass(frozen=True)
class Upload:
    """A file in a form. `name` is the client's; the server opens no file of this name."""

    name: str
    data: bytes


Document = Annotated[
    InstanceOf[Upload], WithJsonSchema({"type": "string", "format": "binary"})
]  # fmt: skip


class CompatibleRequest(BaseModel):
    """A request of another server's API: an optional field may be null or empty."""

    @model_validator(mode="before")
    @classmethod
    def leave_out_empty(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        needed = {name for name, one in cls.model_fields.items() if one.is_required()}
        return {name: value for name, value in given.items()
                if name in needed or value not in (None, "")}  # fmt: skip


@dataclass(frozen=True)
class Call:
    """A request whose client was identified and whose body was read and validated."""

    service: Service
    client: Client
    request: Request
    body: Any


@dataclass(frozen=True)
class Route:
    """One path and method of an API.

    Attributes:
        path: with its parameters in braces.
        says: summary for the OpenAPI document.
        answer: returns a response, or an object that is sent as JSON.
        takes: model that validates the body (JSON or a form), or the query of a GET.
        gives: type of the answer.
        status: of a successful answer.
        open: whether it answers without a key.
        file: whether the request may be a form with a file.
    """

    method: str
    path: str
    says: str
    answer: Callable[[Call], Awaitable[Any]]
    takes: type[BaseModel] | None = None
    gives: Any = None
    status: int = 200
    open: bool = False
    file: bool = False

    async def respond(self, service: Service, request: Request) -> Response:
        """Answer a request. Stop when the client disconnects or the time limit is reached.

        Raises:
            Refused: the request is wrong or too large, or takes too long.
        """
        limits, most = service.limits, service.limits.body(self.file)
        request = Request(request.scope, _bounded(request.receive, most))
        try:
            async with asyncio.timeout(limits.timeout) as time:
                given = await _read(request, most, self.file) if self.takes else {}
                watch = asyncio.create_task(_watch(request, time))
                try:
                    return await self._answered(service, request, given)
                finally:
                    watch.cancel()
        except (TimeoutError, ClientDisconnect) as error:
            if isinstance(error, ClientDisconnect) or await request.is_disconnected():
                return Response(status_code=499)  # for the log only: no client is left to read it
            raise Refused(504, f"The answer would take more than {limits.timeout:g} seconds") from (
                None
            )
        except UserError as error:
            raise Refused(400, f"Invalid request: {error}") from error

    async def _answered(self, service: Service, request: Request, given: Any) -> Response:
        address = request.client.host if request.client else ""
        client = Client("", 0) if self.open else service.client(_key(request, given), address)
        try:
            body = self.takes.model_validate(given) if self.takes else None
        except ValidationError as error:
            raise Refused(400, _explained(error)) from error
        found = await self.answer(Call(service, client, request, body))
        return found if isinstance(found, Response) else JSONResponse(found, self.status)


def write(level: int, event: str, **fields: Any) -> None:
    """Log an event as one line of JSON."""
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    log.log(level, json.dumps({"time": now, "event": event, **fields}))


class JsonHandler(logging.Handler):
    """Logs the messages of uvicorn as lines of JSON."""

    def emit(self, record: logging.LogRecord) -> None:
        write(record.levelno, "uvicorn", message=record.getMessage())


def write_fault(path: str, error: Exception) -> None:
    """Log the type and place of an error without its message, which may hold a user's text."""
    frames = traceback.extract_tb(error.__traceback__)[-5:]
    at = [f"{one.filename}:{one.lineno}" for one in frames]
    write(logging.ERROR, "fault", path=path, kind=type(error).__name__, at=at)


def _bounded(receive: Receive, most: int) -> Receive:
    """Wrap `receive` so that it raises `Refused` once a body has more than `most` bytes."""
    size = 0

    async def receive_part() -> Message:
        nonlocal size
        message = await receive()
        size += len(message.get("body", b""))
        _check_size(size, most)
        return message

    return receive_part


def _check_size(size: int, most: int) -> None:
    if size > most:
        raise Refused(413, f"The body has more than {most} bytes: send less at once")


async def _watch(request: Request, time: asyncio.Timeout) -> None:
    """Wait until the client disconnects, then end the time of its request at once.

    Start it after the body was read, as it receives all further messages.
    """
    message: Message = {}
    while message.get("type") != "http.disconnect":
        message = await request.receive()
    if not time.expired():
        time.reschedule(0)


async def _read(request: Request, most: int, file: bool) -> Any:
    """Read a body of JSON or a form, or a query. JSON need not be an object.

    Raises:
        Refused: the body is too large, or is no JSON.
    """
    length = request.headers.get("content-length", "0")
    _check_size(int(length) if length.isdecimal() else most + 1, most)
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() in FORMS:
        async with request.form(max_files=int(file), max_part_size=most) as form:
            given = {name: [one.replace("\r\n", "\n") if isinstance(one, str) else
                            Upload(one.filename or "", await one.read())
                            for one in form.getlist(name)] for name in form}  # fmt: skip
        return {name: all_of if len(all_of) > 1 else all_of[0] for name, all_of in given.items()}
    if request.method == "GET":
        return dict(request.query_params)
    try:
        return json.loads(await request.body())
    except (ValueError, RecursionError) as error:
        raise Refused(400, "Invalid JSON format") from error


def _key(request: Request, given: Any) -> str | None:
    """Return the key of the header, else of the body; None if neither has one."""
    scheme, _, key = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() in SCHEMES:
        return key.strip()
    found = given.get("api_key", given.get("auth_key")) if isinstance(given, dict) else None
    return found if isinstance(found, str) else None


def _explained(error: ValidationError) -> str:
    """Describe the first error without repeating what the client sent."""
    first = error.errors(include_url=False, include_input=False)[0]
    kind, place = first["type"], [str(part) for part in first["loc"]]
    if not place:
        return "Invalid JSON format"
    # Below the name of a field there may be the names of our types.
    name = ".".join(place if place[0] == "decode" else place[:1])
    if kind in ("missing", "string_too_short", "too_short"):
        return f"Invalid request: missing {name} parameter"
    if kind == "int_parsing":
        return f"Invalid request: {name} parameter is not a number"
    if kind == "is_instance_of":
        return f"Invalid request: {name} parameter is not a file"
    return f"Invalid request: {name}: {first['msg'].partition(' or instance of')[0]}"
