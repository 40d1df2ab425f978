"""Documents that clients upload, and translated documents that wait for their download."""

from __future__ import annotations

import re
import secrets
import time
from dataclasses import dataclass
from pathlib import PurePath
from urllib.parse import quote

from starlette.responses import Response

ROOM = 100_000_000  # bytes kept in all; beyond, the oldest documents are dropped
SECONDS = 3600.0  # after which a document is dropped


@dataclass(frozen=True)
class Upload:
    """A file that a client uploaded in a form.

    Attributes:
        name: the client's name for the file; the server opens no file of this name.
    """

    name: str
    data: bytes

    @property
    def kind(self) -> str:
        """The extension of its name in lower case, such as .docx."""
        return PurePath(self.name).suffix.lower()

    def response(self) -> Response:
        """Return the document as an HTTP response that browsers save as a file."""
        name = re.split(r"[/\\]", self.name)[-1]
        how = f"attachment; filename*=UTF-8''{quote(name, safe='')}"
        return Response(self.data, media_type="application/octet-stream",
                        headers={"Content-Disposition": how})  # fmt: skip


class Downloads:
    """Documents in memory, under names that nobody can guess."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[float, Upload]] = {}  # the oldest first
        self._size = 0

    def add(self, document: Upload) -> str:
        """Keep a document for `SECONDS`, and return the name under which `get` finds it."""
        safe = re.sub(r"[^\w.-]", "_", document.name)[-100:]
        name = f"{secrets.token_urlsafe(16)}.{safe}"
        self._kept[name] = time.monotonic(), document
        self._size += len(document.data)
        for old, (since, other) in list(self._kept.items()):
            if self._size > ROOM or time.monotonic() - since > SECONDS:
                del self._kept[old]
                self._size -= len(other.data)
        return name

    def get(self, name: str) -> Upload | None:
        """Return the document of that name; None if there is none or it is too old."""
        since, found = self._kept.get(name, (0.0, None))
        return found if time.monotonic() - since <= SECONDS else None
