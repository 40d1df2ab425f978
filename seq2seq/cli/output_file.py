"""The output file of a translation: whether it may be written, and how it is gone on with.

An output is whole or not there. While it is unfinished, these stand beside it:

    OUTPUT.partial        what is translated so far: whole blocks, readable as OUTPUT will be
    OUTPUT.partial.json   how much that is, of which input, by which model and with which settings
    OUTPUT.partial.lock   held by the process that writes it
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Any, Self

from seq2seq.bundle.config import bundle_digest
from seq2seq.cli.options import flat
from seq2seq.cli.records import Record
from seq2seq.cli.translate_options import TranslateOptions
from seq2seq.errors import DataError, RunError
from seq2seq.files import alone, read_json, replace_text, sync
from seq2seq.lines import packer

# Bytes, as most file systems allow; the longest is the description while it is written.
LONGEST_NAME = 255 - len(".partial.json.0123abcd.partial")

# What may be otherwise when one goes on: it changes nothing in the answers.
FREE = ("texts", "file", "output", "resume", "force", "model", "use", "device", "batch_tokens",
        "quiet", "verbose", "attention", "cuda_graphs")  # fmt: skip


class Interrupted(RunError):
    """Ctrl-C while a file was written."""

    exit_code = 130


def beside(output: Path) -> Path:
    """Where an output stands until it is whole."""
    return output.with_name(output.name + ".partial")


def resolved(output: Path) -> Path:
    """The file that a link leads to, so that it is replaced and not the link.

    Raises:
        RunError: the link leads nowhere, or in a circle.
    """
    # `/dev/stdout` leads to what is no file: that is refused by the name that was given.
    if not output.is_symlink() or (output.exists() and not output.is_file()):
        return output
    try:
        return output.resolve()
    except (OSError, RuntimeError) as error:
        raise RunError(f"--output {output} is a link that cannot be followed: {error}") from error


def require_place(flag: str, path: Path) -> None:
    """Raise RunError where an option names no place for a file."""
    if not path.parent.is_dir():
        raise RunError(
            f"the folder of {flag} {path} does not exist: make it (mkdir -p {path.parent}) or name "
            "another"
        )
    if path.is_dir():
        raise RunError(f"{flag} {path} is a folder: name a file in it")


def check_output(options: TranslateOptions) -> None:
    """See to it that what was asked for can be written.

    Raises:
        RunError: it cannot, or shall not.
    """
    files, output, figure = options.files, options.files.output, options.answers.attention
    if figure is not None:
        require_place("--attention", figure)
        if figure.exists() and not files.force:
            raise RunError(f"--attention {figure} exists already: name another, or add --force")
    if output is None:
        return
    if len(os.fsencode(output.name)) > LONGEST_NAME:
        raise RunError(
            f"the name of --output {output} is too long: give one of at most {LONGEST_NAME} bytes"
        )
    require_place("--output", output)
    if output.exists() and not output.is_file():
        raise RunError(
            f"--output {output} is no ordinary file, and only such a one can be written whole or "
            f"not at all: leave --output out and redirect, translate ... > {output}"
        )
    if _is_input(output, options):
        raise DataError(f"--output {output} is the input too: give it another name")
    if files.force or (files.resume and beside(output).exists()):
        return
    if beside(output).exists():
        raise RunError(
            f"{beside(output)} is left from a translation that was interrupted: go on with "
            "--resume, or begin anew with --force"
        )
    if output.exists():
        raise RunError(f"{output} exists already: name another --output, or add --force")


def _is_input(output: Path, options: TranslateOptions) -> bool:
    if not output.exists():
        return False
    if options.files.file:
        return output.samefile(options.files.file)
    return not options.texts and os.path.samestat(os.fstat(sys.stdin.fileno()), output.stat())


def made_with(
    options: TranslateOptions, terms: dict[str, str] | None, folders: Iterable[Path]
) -> dict[str, Any]:
    """What an output depends on besides the input, by name: models and options."""
    models = " ".join(_digest(folder)[:16] for folder in folders)
    given = {name: value for name, value in flat(options).items() if name not in FREE}
    return {"model": models, **given, "terms": terms, "precision": _precision(options)}


def _precision(options: TranslateOptions) -> str:
    """The name of the arithmetic, which with auto depends on the device."""
    device, precision = options.model.device, options.model.precision
    if options.model.engine != "torch":
        from seq2seq.inference.engines.ctranslate2 import choose_device as device_of

        kind, _ = device_of(device, precision)
        return f"auto on {kind}" if precision == "auto" else precision
    from seq2seq.inference.engines.torch import choose_device, choose_precision

    return choose_precision(precision, choose_device(device))


def _digest(folder: Path) -> str:
    """Of a run, a bundle, or what one was converted to."""
    return bundle_digest(folder / "bundle" if (folder / "bundle").is_dir() else folder)


def _joined(records: Sequence[Record], lines: Sequence[str]) -> str:
    return "".join(f"{line}{record.end}" for record, line in zip(records, lines, strict=True))


class Output:
    """Where answers go: here they are printed at once, so whoever waits for one gets it."""

    records = 0  # that were answered before

    def pass_over(self, records: Iterable[Record]) -> Iterator[Record]:
        """The records that are still to be translated."""
        return iter(records)

    def write(self, records: Sequence[Record], lines: Sequence[str]) -> None:
        """Add the answers to a block of records."""
        sys.stdout.write(_joined(records, lines))
        sys.stdout.flush()

    def finish(self) -> None:
        """After the last block."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: Any) -> None: ...


class PartialFile(Output):
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
        self._lock = self.path.with_name(self.path.name + ".lock")
        self._pack = packer(output)
        self._digest = hashlib.sha256()
        self.records, self._size, self._expected = 0, 0, ""
        self._held = ExitStack()
        try:
            with self._reported():
                self._held.enter_context(alone(self._lock, self._refuse))
            resume = resume and self.path.exists()
            if resume:
                self.records, self._size, self._expected = self._described()
            with self._reported():
                if not resume:  # before the file is emptied: they never disagree
                    self._describe()
                self._file = self.path.open("r+b" if resume else "wb", buffering=0)
                self._file.truncate(self._size)
                self._file.seek(self._size)
        except BaseException:
            self._held.close()
            raise

    def _refuse(self) -> None:
        raise RunError(
            f"another translate is writing {self.path}: wait for it, or name another --output"
        )

    def _described(self) -> tuple[int, int, str]:
        """Records, bytes and input of what is there; raises RunError where it cannot be used."""
        try:
            there = read_json(self._description)
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

    def _describe(self) -> None:
        description = {
            "records": self.records,
            "bytes": self._size,
            "input": self._digest.hexdigest(),
            "made_with": self._made_with,
        }
        replace_text(self._description, json.dumps(description, indent=2) + "\n")

    @contextmanager
    def _reported(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise RunError(
                f"cannot write {self.path}: {error}. Mend that, then go on with the same command "
                "and --resume"
            ) from error

    def pass_over(self, records: Iterable[Record]) -> Iterator[Record]:
        """The records that are still to be translated.

        Raises:
            RunError: those before are not the ones that were.
        """
        rest = iter(records)
        if self.records:
            done = sum(map(self._read, islice(rest, self.records)))
            if done < self.records or self._digest.hexdigest() != self._expected:
                raise RunError(
                    f"{self.path} holds the translation of {self.records:,} lines that are not "
                    "the first ones of this input: give the same input, in which only later lines "
                    "may have changed, or begin anew with --force"
                )
        return rest

    def _read(self, record: Record) -> int:
        """Count a record as read."""
        self._digest.update(record.line.encode("utf-8", "surrogatepass") + b"\n")
        return 1

    def write(self, records: Sequence[Record], lines: Sequence[str]) -> None:
        """Add the answers to a block of records.

        Raises:
            RunError: the disk is full, or fails.
        """
        data = self._pack(_joined(records, lines).encode())
        rest = memoryview(data)
        with self._reported():
            while rest:
                rest = rest[self._file.write(rest) :]
            os.fsync(self._file.fileno())
            self.records += sum(map(self._read, records))
            self._size += len(data)
            self._describe()

    def finish(self) -> None:
        """Give the file its name.

        Raises:
            RunError: the disk fails.
        """
        with self._reported():
            self._file.close()  # Windows renames no file that is open
            os.replace(self.path, self.output)
            self._description.unlink(missing_ok=True)
            sync(self.output.parent)

    def __exit__(self, *failure: Any) -> None:
        kind, error, _ = failure
        if kind is not None and not self._file.closed:
            self._file.truncate(self._size)  # what was being written when it happened
        self._file.close()
        if kind is not None and not self.records:  # while it is locked: later it may be another's
            self.path.unlink(missing_ok=True)
            self._description.unlink(missing_ok=True)
        with suppress(OSError):  # Windows removes no file that is open
            self._lock.unlink()
        self._held.close()
        if self.records and kind is not None and issubclass(kind, KeyboardInterrupt):
            raise Interrupted(
                f"interrupted; {self.path} holds the translation of {self.records:,} lines: go on "
                "with the same command and --resume"
            ) from error
