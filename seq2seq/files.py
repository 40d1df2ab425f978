"""Files that are whole or not there, however their writing ends, and outlive a loss of power."""

from __future__ import annotations

import errno
import hashlib
import json
import logging
import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

log = logging.getLogger(__name__)

NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)  # of a file system


@contextmanager
def atomic_write(path: Path) -> Iterator[BinaryIO]:
    """A new file to write to, which takes its place at `path` when the block ends well.

    Its `name` is a path beside it, for libraries that want a path. Several processes may write
    one file, each of them whole. If the block raises, or the disk fails, what stood at `path`
    stays.
    """
    partial = path.with_name(f"{path.name}.{secrets.token_hex(4)}.partial")
    try:
        with open(str(partial), "wb") as file:  # a Path would be its name
            yield file
        sync(partial)
        os.replace(partial, path)
    except BaseException:
        with suppress(OSError):  # the first error tells more
            partial.unlink()
        raise
    sync(path.parent)


def replace_text(path: Path, text: str) -> None:
    """Write a file as UTF-8, whole or not at all."""
    with atomic_write(path) as file:
        file.write(text.encode())


@contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """A new folder to write to, which takes the place of `path` when the block ends well.

    No system call puts a folder in the place of a full one, so the old one is `.NAME.old` for a
    moment: where a process was killed then, `restored` puts it back. If the block raises, or the
    disk fails, what stood at `path` stays.
    """
    partial, old = path.with_name(f"{path.name}.{secrets.token_hex(4)}.partial"), _old(path)
    try:
        partial.mkdir(parents=True)
        yield partial
        for written in (*partial.iterdir(), partial):
            sync(written)
        if restored(path).exists():
            _remove(old)
            path.rename(old)
        try:
            partial.rename(path)
        finally:
            restored(path)  # if that failed
        sync(path.parent)
        _remove(old)
    finally:
        _remove(partial)


def restored(path: Path) -> Path:
    """A folder, put back if a process was killed while `atomic_folder` was replacing it."""
    if _old(path).is_dir() and not path.exists():
        with suppress(OSError):  # another process was faster, or may write here
            _old(path).rename(path)
    return path


def _old(path: Path) -> Path:
    return path.parent / f".{path.name}.old"  # of `.`, too, which has no name


def _remove(path: Path) -> None:
    """Remove a folder, a file or a link, if it is there and can be removed."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()


def read_json(path: Path) -> dict[str, Any]:
    """The JSON object that a file holds.

    Raises:
        OSError: the file is missing or cannot be read.
        ValueError: it holds something else.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except RecursionError:
        raise ValueError("its objects and lists lie too deep inside each other") from None
    if not isinstance(content, dict):
        raise ValueError("it holds no JSON object")
    return content


def checksum(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def remove_leftovers(folder: Path) -> None:
    """Remove what processes left that were killed while they wrote; none may write there now."""
    for path in folder.glob(f"*.{8 * '[0-9a-f]'}.partial"):
        _remove(path)


def sync(path: Path) -> None:
    """Force a file, or the names in a folder, from memory to the disk."""
    folder = path.is_dir()
    try:
        # Windows forces only what could be written.
        descriptor = os.open(path, os.O_RDONLY if folder else os.O_RDWR)
    except PermissionError:
        if folder:  # it may be for writing only; Windows opens none and needs no such thing
            return
        raise
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def alone(
    path: Path, waiting: Callable[[], None] = lambda: None, seconds: float = -1
) -> Iterator[None]:
    """While no other process is in a block of the same lock; a killed process lets go.

    A file system without locks is warned of, and nobody is kept out.

    Args:
        path: of the lock, a file of no content, which stays.
        waiting: called if another process has it, before waiting.
        seconds: how long to wait; by default until the other process has ended.

    Raises:
        TimeoutError: the other process has it for longer.
    """
    from filelock import FileLock  # takes a while, and seldom needed

    lock = FileLock(path)
    try:
        try:
            lock.acquire(timeout=0)
        except TimeoutError:
            if seconds != 0:
                waiting()
            lock.acquire(timeout=seconds)
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise
        log.warning("%s: %s. See that no other process works here", path, error.strerror)
    try:
        yield
    finally:
        lock.release()
