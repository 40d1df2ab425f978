"""Documents that clients send, and translations of them that wait to be fetched."""

from __future__ import annotations

import re
import secrets
import time
from dataclasses import dataclass
from pathlib import PurePath
from urllib.parse import quote

from starlette.responses import Response

ROOM = 100_000_000  # bytes that wait; of more, the oldest goes
SECONDS = 3600.0  # that a document waits


@dataclass(frozen=True)
class Upload:
    """A file of a form.

    Attributes:
        name: as the client calls it; nothing is ever opened by it.
    """

    name: str
    data: bytes

    @property
    def kind(self) -> str:
        """The end of its name."""
        return PurePath(self.name).suffix.lower()

    def response(self) -> Response:
        """The document as a file to be kept."""
        name = re.split(r"[/\\]", self.name)[-1]
        how = f"attachment; filename*=UTF-8''{quote(name, safe='')}"
        return Response(self.data, media_type="application/octet-stream",
                        headers={"Content-Disposition": how})  # fmt: skip


class Downloads:
    """Documents in memory, by names that nobody can guess."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[float, Upload]] = {}  # the oldest first
        self._size = 0

    def add(self, document: Upload) -> str:
        """Keep a document for some time; its name."""
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
        """The document of that name, if it is still there."""
        since, found = self._kept.get(name, (0.0, None))
        return found if time.monotonic() - since <= SECONDS else None
