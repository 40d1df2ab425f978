"""Lines of UTF-8 text, in files that may be packed (`.gz`, `.zst`) and in pipes.

Only a line feed ends a line, with or without a carriage return before it: other characters that
some programs take for the end of a line may be part of the text. A byte order mark is dropped.
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
READ = 1 << 20  # at most so many bytes of a pipe are read at once
LONGEST = 1 << 26  # bytes; a longer line is not taken for text


def lines_of(path: Path, passed: int = 0, start: int = 0) -> Iterator[str]:
    """Yield the lines of a file without their ends, from byte `start`, which begins a line.

    Messages count the `passed` lines before that byte.

    Raises:
        DataError: the file cannot be read, or is not UTF-8; the message names the line.
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
    """Yield the lines of a file with their ends.

    Raises:
        DataError: a line is longer than LONGEST: it could fill the memory, and is hardly text.
    """
    while line := file.readline(LONGEST + 1):
        if len(line) > LONGEST:
            raise _no_lines(name)
        yield line


def _no_lines(name: str) -> DataError:
    return DataError(
        f"{name} has a line of more than {LONGEST:,} bytes, so it is probably no text file"
    )


def decoded(lines: Iterable[bytes], name: str, passed: int = 0) -> Iterator[str]:
    """Decode lines, before which `passed` others were read, and cut their ends off.

    Raises:
        DataError: a line is not UTF-8; the message has the name of the file or pipe.
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
    # In UTF-16, every second byte of Latin script is 0.
    if marked or first_line.count(0) * 3 > len(first_line):
        raise DataError(
            f"{name}, line 1: this looks like UTF-16, text of two bytes a letter; only UTF-8 is "
            "read. Convert it, for example: iconv -f utf-16 -t utf-8"
        )


def open_packed(path: Path) -> IO[bytes]:
    """Open a file for reading bytes; unpack `.gz` and `.zst`."""
    if path.suffix == ".gz":
        return gzip.open(path, "rb")  # type: ignore[return-value]  # GzipFile reads like IO[bytes]
    if path.suffix == ".zst":
        import pyarrow  # loads in half a second and is seldom needed

        unpacked = pyarrow.input_stream(str(path), compression="zstd")
        return io.BufferedReader(unpacked, 1 << 16)  # the stream itself has no readline
    return path.open("rb")


def packer(path: Path) -> Callable[[bytes], bytes]:
    """Return a function that packs bytes as the file's suffix says.

    Packed pieces can be appended to each other: the result is a valid packed file.
    """
    if path.suffix == ".gz":
        return lambda data: gzip.compress(data, mtime=0)  # equal texts give equal bytes
    if path.suffix == ".zst":
        import pyarrow

        codec = pyarrow.Codec("zstd")
        return lambda data: bytes(codec.compress(data, asbytes=True))
    return lambda data: data


class ArrivingLines:
    """Iterate over the lines of a pipe as they arrive, without their line feeds.

    The other end of the pipe may send one line and wait for its answer before the next. `pauses`
    says that no further line has arrived, so that the caller can answer. Nothing else may read
    from the pipe.
    """

    def __init__(self, descriptor: int, name: str):
        self._descriptor, self._name = descriptor, name
        self._whole = deque[bytes]()  # lines that have arrived and were not yielded yet

    def __iter__(self) -> Iterator[bytes]:
        parts: list[bytes] = []  # of the last line, whose end has not arrived
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
        """Tell whether the next line has not arrived yet."""
        return not self._whole

    def _read(self) -> bytes:
        try:
            return os.read(self._descriptor, READ)
        except BlockingIOError:  # another process that shares the pipe made it non-blocking
            select.select([self._descriptor], [], [])
            return self._read()
        except OSError as error:
            raise DataError(f"cannot read {self._name}: {error}") from error
