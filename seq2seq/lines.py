"""Lines of UTF-8 text, in files that may be packed (`.gz`, `.zst`) and in pipes.

Only a line feed ends a line, with or without a carriage return before it: text may hold any other
character that some programs take for the end of a line. A byte order mark is dropped.
"""

from __future__ import annotations

import gzip
import io
import os
import select
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO

from seq2seq.errors import DataError

PACKED = (".gz", ".zst")
READ = 1 << 20  # bytes of a pipe that are read at once, if so many have come
LONGEST = 1 << 26  # bytes without a line feed that are still taken for text


def lines_of(path: Path, passed: int = 0, start: int = 0) -> Iterator[str]:
    """Lines of a file without their ends.

    Args:
        path: of the file.
        passed: lines that are passed over.
        start: byte where the line behind them begins.

    Raises:
        DataError: it cannot be read, or is not UTF-8; names the line.
    """
    number = passed
    try:
        with open_packed(path) as file:
            if start:
                file.seek(start)
            for line in decoded(bounded(file, str(path)), str(path), passed):
                number += 1
                yield line
    except (OSError, EOFError, zlib.error) as error:
        after = f" after line {number}" if number else ""
        raise DataError(f"cannot read {path}{after}: {error}. Is it the right file?") from error


def bounded(file: IO[bytes], name: str) -> Iterator[bytes]:
    """Lines of a file with their ends.

    Raises:
        DataError: one is so long that it would fill the memory, and can hardly be text.
    """
    while line := file.readline(LONGEST + 1):
        if len(line) > LONGEST:
            raise _no_lines(name)
        yield line


def _no_lines(name: str) -> DataError:
    return DataError(f"{name}: {LONGEST:,} bytes and no end of a line: is this text?")


def decoded(lines: Iterable[bytes], name: str, passed: int = 0) -> Iterator[str]:
    """Text of lines without their ends.

    Args:
        lines: of UTF-8 text.
        name: of where they come from, for messages.
        passed: lines that stand there before these.
    """
    number = passed
    try:
        for number, raw in enumerate(lines, passed + 1):
            if number == 1:
                _refuse_utf16(raw, name)
            yield raw.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise DataError(
            f"{name}, line {number}: not UTF-8 text ({error.reason} at byte {error.start} of the "
            "line). Convert it, for example: iconv -f latin1 -t utf-8"
        ) from error


def _refuse_utf16(first_line: bytes, name: str) -> None:
    marked = first_line.startswith((b"\xff\xfe", b"\xfe\xff"))
    if marked or first_line.count(0) * 3 > len(first_line):  # every second byte in Latin script
        raise DataError(
            f"{name}, line 1: this looks like UTF-16, text of two bytes a letter; only UTF-8 is "
            "read. Convert it, for example: iconv -f utf-16 -t utf-8"
        )


def open_packed(path: Path) -> IO[bytes]:
    """A file opened to read what it holds, packed or not."""
    if path.suffix == ".gz":
        return gzip.open(path, "rb")  # type: ignore[return-value]  # GzipFile reads like IO[bytes]
    if path.suffix == ".zst":
        import pyarrow  # half a second, and seldom needed

        unpacked = pyarrow.input_stream(str(path), compression="zstd")
        return io.BufferedReader(unpacked, 1 << 16)  # the stream itself has no readline
    return path.open("rb")


def packer(path: Path) -> Callable[[bytes], bytes]:
    """How a file of this name is packed; packed pieces, one after another, are a packed file."""
    if path.suffix == ".gz":
        return lambda data: gzip.compress(data, mtime=0)  # the same text, the same bytes
    if path.suffix == ".zst":
        import pyarrow

        codec = pyarrow.Codec("zstd")
        return lambda data: bytes(codec.compress(data, asbytes=True))
    return lambda data: data


class ArrivingLines:
    """Lines of a pipe as they come, with their ends cut off.

    Who asks one question at a time, and waits for the answer, can be given it: `pauses` tells.

    Args:
        descriptor: what to read from; nothing else may read from it.
        name: of the pipe, for messages.
    """

    def __init__(self, descriptor: int, name: str):
        self._descriptor, self._name = descriptor, name
        self._whole = deque[bytes]()  # lines that have come and are not given yet

    def __iter__(self) -> Iterator[bytes]:
        parts: list[bytes] = []  # of the last line
        while data := self._read():
            parts.append(data)
            if b"\n" in data:
                *whole, last = b"".join(parts).split(b"\n")
                self._whole.extend(whole)
                parts = [last]
            elif sum(map(len, parts)) > LONGEST:
                raise _no_lines(self._name)
            while self._whole:
                yield self._whole.popleft()
        if last := b"".join(parts):
            yield last

    def pauses(self) -> bool:
        """Whether the next line would have to be waited for."""
        return not self._whole

    def _read(self) -> bytes:
        try:
            return os.read(self._descriptor, READ)
        except BlockingIOError:  # whoever shares the pipe has told it not to wait
            select.select([self._descriptor], [], [])
            return self._read()
        except OSError as error:
            raise DataError(f"cannot read {self._name}: {error}") from error
