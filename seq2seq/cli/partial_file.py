"""An output file that is whole or not there; while unfinished it waits beside.

    OUTPUT.partial        what is translated so far: whole blocks, readable as OUTPUT will be
    OUTPUT.partial.json   how much that is, of which input, by which model and with which settings
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from seq2seq.cli.records import Record
from seq2seq.disk import sync
from seq2seq.errors import RunError
from seq2seq.lines import packer


class Interrupted(RunError):
    """Ctrl-C while a file was written."""

    exit_code = 130


def beside(output: Path) -> Path:
    """Where an output stands until it is whole."""
    return output.with_name(output.name + ".partial")


class PartialFile:
    """An output that is being written, block by block; a context that ends with its closing.

    Whatever ends the program, the file and its description agree on some whole number of blocks:
    a block counts when the description of it has replaced the one before.

    Args:
        output: the file that it becomes.
        made_with: what the output depends on besides the input, by name.
        resume: whether to go on with what is there.

    Raises:
        RunError: what is there was made with something else, is damaged, or is being written by
            another process; the disk fails.
    """

    def __init__(self, output: Path, made_with: dict[str, Any], resume: bool = False):
        self.output, self.path, self._made_with = output, beside(output), made_with
        self._description = self.path.with_name(self.path.name + ".json")
        self._pack = packer(output)
        self._digest = hashlib.sha256()
        self.records, self._size = 0, 0
        with self._reported():
            self._file, existed = _locked(self.path)
        try:
            if resume and existed:
                self.records, self._size, self._expected = self._described()
            with self._reported():
                if not (resume and existed):  # before the file is emptied: they never disagree
                    self._describe()
                self._file.truncate(self._size)
                self._file.seek(self._size)
        except BaseException:
            if not existed:
                self.path.unlink(missing_ok=True)
            self._file.close()
            raise

    def _described(self) -> tuple[int, int, str]:
        """Records, bytes and input of what is there; raises RunError where it cannot be used."""
        try:
            there = json.loads(self._description.read_text(encoding="utf-8"))
            records, size, digest = int(there["records"]), int(there["bytes"]), there["input"]
            before = dict(there["made_with"])
            if self.path.stat().st_size < size:
                raise ValueError(f"{self.path} is shorter than it was")
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise RunError(
                f"{self.path} cannot be gone on with, since its description {self._description} "
                f"is missing or damaged ({error}): begin anew with --force"
            ) from error
        differences = [
            f"{name} was {before.get(name)} and is {self._made_with.get(name)}"
            for name in sorted(before.keys() | self._made_with.keys())
            if before.get(name) != self._made_with.get(name)
        ]
        if differences:
            raise RunError(
                f"{self.path} was begun otherwise ({'; '.join(differences)}), and one file is not "
                "to be made in two ways: go on as it was begun, or begin anew with --force"
            )
        return records, size, str(digest)

    def pass_over(self, records: Iterable[Record]) -> Iterator[Record]:
        """The records that are still to be translated.

        Raises:
            RunError: those before are not the ones that were.
        """
        rest = iter(records)
        if self.records:
            done = add_to_digest(self._digest, islice(rest, self.records))
            if done < self.records or self._digest.hexdigest() != self._expected:
                raise RunError(
                    f"{self.path} holds the translation of {self.records:,} lines that are not "
                    "the first ones of this input: give the same input, in which only later lines "
                    "may have changed, or begin anew with --force"
                )
        return rest

    def write(self, records: Sequence[Record], lines: Sequence[str]) -> None:
        """Add the answers to a block of records.

        Raises:
            RunError: the disk is full, or fails.
        """
        data = self._pack("".join(f"{line}\n" for line in lines).encode())
        add_to_digest(self._digest, records)
        rest = memoryview(data)
        with self._reported():
            while rest:
                rest = rest[self._file.write(rest) :]
            os.fsync(self._file.fileno())
            self.records += len(records)
            self._size += len(data)
            self._describe()

    @contextmanager
    def _reported(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise RunError(
                f"cannot write {self.path}: {error}. Make room, then go on with the same command "
                "and --resume"
            ) from error

    def _describe(self) -> None:
        description = {
            "records": self.records,
            "bytes": self._size,
            "input": self._digest.hexdigest(),
            "made_with": self._made_with,
        }
        new = self._description.with_name(self._description.name + ".new")
        new.write_text(json.dumps(description, indent=2) + "\n", encoding="utf-8")
        sync(new)
        os.replace(new, self._description)

    def finish(self) -> None:
        """Give the file its name.

        Raises:
            RunError: the disk fails.
        """
        with self._reported():
            os.fsync(self._file.fileno())
            os.replace(self.path, self.output)
            self._description.unlink(missing_ok=True)
            with suppress(PermissionError):  # a folder may be for writing only
                sync(self.output.parent)

    def __enter__(self) -> PartialFile:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is not None:
            self._file.truncate(self._size)  # what was being written when it happened
        if kind is not None and not self.records:  # while it is locked: later it may be another's
            self.path.unlink(missing_ok=True)
            self._description.unlink(missing_ok=True)
        self._file.close()
        if not self.records:
            return
        if kind is not None and issubclass(kind, KeyboardInterrupt):
            raise Interrupted(
                f"interrupted; {self.path} holds the translation of {self.records:,} lines: go on "
                "with the same command and --resume"
            ) from error


def _locked(path: Path) -> tuple[IO[bytes], bool]:
    """A file that no other process has locked until it is closed, and whether it was there.

    Raises:
        RunError: another process has.
    """
    busy = RunError(f"another translate is writing {path}: wait for it, or name another --output")
    existed = True
    try:
        descriptor = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        existed = False
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
        except FileExistsError:
            raise busy from None
    file = os.fdopen(descriptor, "r+b", buffering=0)
    try:
        with suppress(OSError):  # some file systems of networks have no locks
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise busy from None
        # The other may have finished, and given the file its name, since it was opened.
        if not path.exists() or not os.path.samestat(os.fstat(descriptor), path.stat()):
            raise busy
    except BaseException:
        file.close()
        raise
    return file, existed


def add_to_digest(digest: Any, records: Iterable[Record]) -> int:
    """Add records to a digest; how many there were."""
    count = 0
    for record in records:
        digest.update(record.line.encode("utf-8", "surrogatepass") + b"\n")
        count += 1
    return count
