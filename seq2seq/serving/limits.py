"""Who may use a server, and how much: limits, clients and their keys."""

from __future__ import annotations

import hashlib
import math
import time
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path

from seq2seq.config.checked import Checked, setting
from seq2seq.errors import DataError

JSON_CHARACTER = 12  # most bytes of a character in JSON: a surrogate pair of two 6-byte escapes
CLIENTS = 10_000  # clients without keys that are remembered, to count their requests
UNLIMITED = 10**12  # characters; DeepL reports "no limit" so


class Refused(Exception):
    """The server refuses a request: HTTP status, reason, and seconds until the client may retry.

    The attributes have the names of those of Starlette's `HTTPException`.
    """

    def __init__(self, status: int, message: str, seconds: float | None = None):
        super().__init__(message)
        self.status_code, self.detail = status, message
        self.headers = {} if seconds is None else {"Retry-After": str(math.ceil(seconds))}


class Limits(Checked, section="option"):
    """Limits of the server."""

    characters: int = setting(20_000, "most characters of the texts of a request", at_least=1)
    texts: int = setting(500, "most texts of a request", at_least=1)
    queue: int = setting(
        400_000, "most characters that wait; further requests get status 503", at_least=1
    )
    document: int = setting(
        5_000_000, "most bytes of a .docx, compressed or not; other documents have the limit of "
        "any request", at_least=1,
    )  # fmt: skip
    timeout: float = setting(60.0, "most seconds that a request may take", above=0, at_most=3600)
    batch: int = setting(64, "most texts that are translated together", at_least=1)
    wait: float = setting(
        5.0, "milliseconds that a text waits for other texts of its batch", at_least=0, at_most=1000
    )
    rate: int = setting(0, "most requests of a client in a minute; 0 = no limit", at_least=0)

    def body(self, file: bool = False) -> int:
        """Return the most bytes that a request's body may have, with or without a document."""
        return (self.document if file else JSON_CHARACTER * self.characters) + 2**16


@dataclass
class Client:
    """A client, known by its key or its address.

    Attributes:
        name: of the key, or the address.
        rate: requests per minute; 0 for any number.
        quota: characters that the client may have translated from the server's start on.
        used: characters translated so far.
        tokens, at: a token bucket: the requests left at the time `at` (of `time.monotonic`).
    """

    name: str
    rate: int
    quota: int = UNLIMITED
    used: int = 0
    tokens: float = field(init=False)
    at: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self.tokens = self.rate

    def wait(self) -> float:
        """Count a request, and return 0; if it comes too soon, return the seconds to wait."""
        if not self.rate:
            return 0
        now = time.monotonic()
        self.tokens = min(self.rate, self.tokens + (now - self.at) * self.rate / 60)
        self.at = now
        if self.tokens < 1:
            return (1 - self.tokens) * 60 / self.rate
        self.tokens -= 1
        return 0


class Keys:
    """The clients, found by key if there are keys, else by address.

    Args:
        file: lines of NAME KEY [REQUESTS PER MINUTE [CHARACTERS]], separated by spaces; # begins a
            comment.
        rate: requests per minute of a client whose line names no rate.

    Raises:
        DataError: the file cannot be read, or one of its lines has another form.
    """

    def __init__(self, file: Path | None, rate: int = 0):
        self._by_key = {} if file is None else _read(file, rate)
        self._by_address = lru_cache(CLIENTS)(partial(Client, rate=rate))
        self.required = file is not None

    def find(self, key: str | None, address: str) -> Client | None:
        """Return the client; None if keys are required and the key is wrong or missing."""
        return self._by_key.get(_digest(key or "")) if self.required else self._by_address(address)


def _digest(key: str) -> bytes:
    """Hash a key, so that the time of its lookup reveals nothing about other keys."""
    return hashlib.sha256(key.encode("utf-8", "replace")).digest()


def _read(file: Path, rate: int) -> dict[bytes, Client]:
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"the keys in {file} cannot be read ({error}): correct --api-keys") from (
            error
        )
    clients: dict[bytes, Client] = {}
    for number, line in enumerate(lines, 1):
        words = line.split("#")[0].split()
        if not words:
            continue
        good = 2 <= len(words) <= 4 and all(word.isdecimal() for word in words[2:])
        if not good or _digest(words[1]) in clients:
            raise DataError(
                f"{file}, line {number}: give NAME KEY, and optionally requests a minute and "
                "characters in all, separated by spaces; each client has a key of its own"
            )
        clients[_digest(words[1])] = Client(words[0], *map(int, words[2:] or [str(rate)]))
    if not clients:
        raise DataError(f"{file} has no key, so no client could send requests: add a line NAME KEY")
    return clients
