"""Write files and folders atomically: after a crash or a loss of power, each is whole or absent."""

from __future__ import annotations

import errno
import hashlib
import json
import logging
import os
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

log = logging.getLogger(__name__)

NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)  # errors of file systems without locks


@contextmanager
def atomic_write(path: Path) -> Iterator[BinaryIO]:
    """Yield a new file, and move it to `path` when the block ends without an error.

    The `name` of the new file is a path in the same folder, for libraries that want a path.
    Several processes may write to the same `path`; each puts a whole file there. If the block
    raises, or the disk fails, an older file at `path` stays.
    """
    partial = path.with_name(f"{path.name}.{secrets.token_hex(4)}.partial")
    try:
        with open(str(partial), "wb") as file:  # if a Path is opened, `file.name` is no str
            yield file
        sync(partial)
        os.replace(partial, path)
    except BaseException:
        with suppress(OSError):  # the first error tells more
            partial.unlink()
        raise
    sync(path.parent)


def replace_text(path: Path, text: str) -> None:
    """Write a text to a file as UTF-8, whole or not at all."""
    with atomic_write(path) as file:
        file.write(text.encode())


@contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """Yield a new folder, and move it to `path` when the block ends without an error.

    No system call replaces a folder that is not empty, so the old folder is renamed to `.NAME.old`
    for a moment. If the process is killed in that moment, the next reader or writer renames it back
    (`restored`). If the block raises, or the disk fails, an older folder at `path` stays.
    """
    partial = path.with_name(f"{path.name}.{secrets.token_hex(4)}.partial")
    try:
        partial.mkdir(parents=True)
        yield partial
        for written in (*partial.iterdir(), partial):
            sync(written)
        _exchange(partial, path)
        sync(path.parent)
        _remove(_old(path))
    finally:
        _remove(partial)


def _exchange(partial: Path, path: Path) -> None:
    """Move a folder to `path`, and the folder that is there aside."""
    for last in (False, True):
        if restored(path).exists():
            _remove(_old(path))
            path.rename(_old(path))
        try:
            partial.rename(path)
            return
        except OSError:
            put_back_by_a_reader = path.exists()
            restored(path)
            if last or not put_back_by_a_reader:
                raise


def restored(path: Path) -> Path:
    """Return `path`; first put its folder back if a process was killed in `atomic_folder`."""
    if _old(path).is_dir() and not path.exists():
        with suppress(OSError):  # another process was faster, or this one may not write here
            _old(path).rename(path)
    return path


def _old(path: Path) -> Path:
    return path.parent / f".{path.name}.old"  # `with_name` would fail for `.`, which has no name


def _remove(path: Path) -> None:
    """Remove a folder, a file or a link, if it exists and can be removed."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()


def read_json(path: Path) -> dict[str, Any]:
    """Read the JSON object in a file.

    Raises:
        OSError: the file is missing or cannot be read.
        ValueError: the file holds no JSON object.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except RecursionError:
        raise ValueError("its objects and lists lie too deep inside each other") from None
    if not isinstance(content, dict):
        raise ValueError("it holds no JSON object")
    return content


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write a JSON object to a file that people can read."""
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def checksum(path: Path) -> str:
    """Compute the SHA-256 of a file, in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def remove_leftovers(folder: Path) -> None:
    """Remove partial files and folders of killed processes; no process may be writing there."""
    for path in folder.glob(f"*.{8 * '[0-9a-f]'}.partial"):
        _remove(path)


def sync(path: Path) -> None:
    """Flush a file, or the names in a folder, from memory to the disk (fsync)."""
    folder = path.is_dir()
    try:
        # Windows flushes only files that are open for writing.
        descriptor = os.open(path, os.O_RDONLY if folder else os.O_RDWR)
    except PermissionError:
        if folder:  # it may be write-only; Windows cannot open folders and needs no flush of them
            return
        raise
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def lock(path: Path, waiting: Callable[[], None] = lambda: None) -> Iterator[bool]:
    """Hold a lock while the block runs, so that only one process is in it at a time.

    The lock of a killed process is released. On a file system without locks, log a warning and run
    the block without a lock. Yields whether the lock is held.

    `path` is an empty file that is not removed. If another process holds the lock, `waiting` is
    called before waiting; it may raise an error instead.
    """
    from filelock import FileLock  # loads slowly and is seldom needed

    held = FileLock(path)
    try:
        try:
            held.acquire(timeout=0)
        except TimeoutError:
            waiting()
            held.acquire()
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise
        log.warning("%s: %s. See that no other process works here", path, error.strerror)
    try:
        yield held.is_locked
    finally:
        held.release()
