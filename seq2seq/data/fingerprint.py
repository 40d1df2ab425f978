"""Short hashes of everything that decides prepared data; the folder that keeps such data."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Any

from seq2seq.files import lock, replace_text


def cache_folder(setting: str | None) -> Path:
    """Return the folder `data.cache`, else $SEQ2SEQ_CACHE, else the user's cache."""
    named = setting or os.environ.get("SEQ2SEQ_CACHE")
    if named:
        return Path(named).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "seq2seq"


def fingerprint(value: Any) -> str:
    """Hash a JSON value to 16 hexadecimal digits; the order of keys does not matter."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=False)
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def text_fingerprint(texts: Iterable[str]) -> str:
    """Hash a sequence of texts to 16 hexadecimal digits."""
    digest = hashlib.blake2b(digest_size=8)
    for text in texts:
        digest.update(text.encode("utf-8", "surrogatepass"))
        digest.update(b"\0")
    return digest.hexdigest()


def file_fingerprint(path: Path, memory: Path, verify: bool = False) -> str:
    """Hash a file's content to 16 hexadecimal digits, whatever the file's name.

    A large corpus takes long to read, so the folder `memory` keeps the result for as long as the
    file's size and time of change stay the same. With `verify`, the file is read anyway.
    """
    state = path.stat()
    place = text_fingerprint([str(path.resolve()), str(state.st_size), str(state.st_mtime_ns)])
    remembered = memory / place
    with ExitStack() as held:
        with suppress(OSError):  # the folder may belong to another user, who prepared the data
            memory.mkdir(parents=True, exist_ok=True)
            # Of processes that start together, one reads the file.
            if not verify and not remembered.exists():
                held.enter_context(lock(memory / "lock"))
        with suppress(OSError, ValueError):
            if not verify:
                return remembered.read_text(encoding="ascii")
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, partial(hashlib.blake2b, digest_size=8)).hexdigest()
        with suppress(OSError):
            replace_text(remembered, digest)
        return digest
