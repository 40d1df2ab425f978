"""The output file of a translation: whether it may be written, and how it is resumed.

An output is complete or absent. While it is incomplete, these files stand beside it:

    OUTPUT.partial        the translations so far, in whole blocks
    OUTPUT.partial.json   how many lines these are, and of which input, model and settings
    OUTPUT.partial.lock   held by the process that writes OUTPUT.partial
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
from seq2seq.files import lock, read_json, replace_text, sync
from seq2seq.lines import packer

# Options that may differ when a translation is resumed: they do not change the answers.
FREE = ("texts", "file", "output", "resume", "force", "model", "use", "device", "batch_tokens",
        "quiet", "verbose", "attention", "cuda_graphs")  # fmt: skip


def beside(output: Path) -> Path:
    """Return where an output is written until it is complete."""
    return output.with_name(output.name + ".partial")


def require_place(flag: str, path: Path) -> None:
    """Raise RunError if an option names a folder, or a file in a folder that does not exist."""
    if not path.parent.is_dir():
        raise RunError(f"the folder of {flag} {path} does not exist: make it or name another")
    if path.is_dir():
        raise RunError(f"{flag} {path} is a folder: name a file in it")


def check_output(options: TranslateOptions) -> None:
    """Raise UserError if the output or the figure cannot be written, or must not be replaced."""
    files, output, figure = options.files, options.files.output, options.answers.attention
    if figure is not None:
        require_place("--attention", figure)
        if figure.exists() and not files.force:
            raise RunError(f"--attention {figure} exists already: name another, or add --force")
    if output is None:
        return
    require_place("--output", output)
    if output.exists() and not output.is_file():
        raise RunError(
            f"--output {output} is not a regular file, so an interrupted translation would leave "
            f"half of it. Redirect instead: translate ... > {output}"
        )
    if _is_input(output, options):
        raise DataError(f"--output {output} is the input too: give it another name")
    if files.force or (files.resume and beside(output).exists()):
        return
    if beside(output).exists():
        raise RunError(
            f"{beside(output)} is from an interrupted translation. Continue it with --resume, or "
            "start again with --force"
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
    """Return what an output depends on besides the input, by name: models and options."""
    bundles = [folder / "bundle" if (folder / "bundle").is_dir() else folder for folder in folders]
    models = " ".join(bundle_digest(bundle)[:16] for bundle in bundles)
    given = {name: value for name, value in flat(options).items() if name not in FREE}
    return {"model": models, **given, "terms": terms, "precision": _precision(options)}


def _precision(options: TranslateOptions) -> str:
    """Return the precision of the arithmetic; `auto` depends on the device."""
    device, precision = options.model.device, options.model.precision
    if options.model.engine != "torch":
        from seq2seq.inference.engines.ctranslate2 import choose_device as device_of

        kind, _ = device_of(device, precision)
        return f"auto on {kind}" if precision == "auto" else precision
    from seq2seq.inference.engines.torch import choose_device, choose_precision

    return choose_precision(precision, choose_device(device))


def _joined(records: Sequence[Record], lines: Sequence[str]) -> str:
    return "".join(f"{line}{record.end}" for record, line in zip(records, lines, strict=True))


class Output:
    """Where answers go. This class prints them at once, since a reader may wait for them."""

    records = 0  # records that were answered before

    def skip_translated(self, records: Iterable[Record]) -> Iterator[Record]:
        """Return the records that are still to be translated."""
        return iter(records)

    def write(self, records: Sequence[Record], lines: Sequence[str]) -> None:
        """Write the answers to a block of records."""
        sys.stdout.write(_joined(records, lines))
        sys.stdout.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None: ...


class PartialFile(Output):
    """An output that is written block by block, and complete when its context ends without error.

    However the program ends, the file and its description agree on a whole number of blocks: a
    block counts when a description with it has replaced the one before. `made_with` names what
    the output depends on besides the input.

    Raises:
        RunError: the existing file was made with something else, is damaged, or is being written
            by another process; the disk fails.
    """

    def __init__(self, output: Path, made_with: dict[str, Any], resume: bool = False):
        self.output, self.path, self._made_with = output, beside(output), made_with
        self._description = self.path.with_name(self.path.name + ".json")
        lock_path = self.path.with_name(self.path.name + ".lock")
        self._pack = packer(output)
        self._digest = hashlib.sha256()  # of the input
        self.records, self._size, self._expected = 0, 0, ""
        with ExitStack() as held, self._reported():
            held.enter_context(lock(lock_path, self._refuse))
            held.callback(_remove, lock_path)  # while held: later, another process may hold it
            resume = resume and self.path.exists()
            if resume:
                self._read_description()
            else:  # before the file is emptied, so that they never disagree
                self._describe()
            self._file = self.path.open("r+b" if resume else "wb", buffering=0)
            self._file.truncate(self._size)
            self._file.seek(self._size)
            self._held = held.pop_all()

    def _refuse(self) -> None:
        raise RunError(
            f"another translate is writing {self.path}: wait for it, or name another --output"
        )

    def _read_description(self) -> None:
        """Read records, bytes and input of the existing file; raise RunError if it is unusable."""
        try:
            there = read_json(self._description)
            self.records, self._size = int(there["records"]), int(there["bytes"])
            self._expected, before = there["input"], dict(there["made_with"])
            if self.path.stat().st_size < self._size:
                raise ValueError(f"{self.path} is shorter than it was")
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise RunError(
                f"{self.path} cannot be resumed: its description {self._description} is missing "
                f"or damaged ({error}). Start again with --force"
            ) from error
        now = self._made_with
        differences = "; ".join(
            f"{name} was {before.get(name)} and is {now.get(name)}"
            for name in sorted(before.keys() | now.keys())
            if before.get(name) != now.get(name)
        )
        if differences:
            raise RunError(
                f"{self.path} was started with other settings ({differences}). Use the same "
                "settings to resume, or start again with --force"
            )

    def _describe(self) -> None:
        description = {"records": self.records, "bytes": self._size,
                       "input": self._digest.hexdigest(), "made_with": self._made_with}  # fmt: skip
        replace_text(self._description, json.dumps(description, indent=2) + "\n")

    @contextmanager
    def _reported(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise RunError(
                f"cannot write {self.path}: {error}. Correct that, then continue with the same "
                "command and --resume"
            ) from error

    def skip_translated(self, records: Iterable[Record]) -> Iterator[Record]:
        """Return the records that are still to be translated.

        Raises:
            RunError: the records before them are not those that were translated.
        """
        rest = iter(records)
        if self.records:
            done = self._count_in(islice(rest, self.records))
            if done < self.records or self._digest.hexdigest() != self._expected:
                raise RunError(
                    f"{self.path} holds translations of {self.records:,} lines, and this input "
                    "begins with other lines. Give the input that it was started with (later "
                    "lines may differ), or start again with --force"
                )
        return rest

    def _count_in(self, records: Iterable[Record]) -> int:
        """Add records, of which there may be millions, to the digest; return their number."""
        number = 0
        for record in records:
            self._digest.update(record.line.encode("utf-8", "surrogatepass") + b"\n")
            number += 1
        return number

    def write(self, records: Sequence[Record], lines: Sequence[str]) -> None:
        data = self._pack(_joined(records, lines).encode())
        rest = memoryview(data)
        with self._reported():
            while rest:
                rest = rest[self._file.write(rest) :]
            os.fsync(self._file.fileno())
            self.records += self._count_in(records)
            self._size += len(data)
            self._describe()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        with self._held, self._reported():
            self._file.close()  # Windows renames no file that is open
            if kind is None:
                os.replace(self.path, self.output)
                self._description.unlink(missing_ok=True)
                sync(self.output.parent)
            elif not self.records:
                _remove(self.path)
                _remove(self._description)
            elif issubclass(kind, KeyboardInterrupt):
                done = f"{self.path} holds the translation of {self.records:,} lines"
                print(f"{done}: continue with the same command and --resume", file=sys.stderr)


def _remove(path: Path) -> None:
    with suppress(OSError):  # Windows removes no file that is open
        path.unlink()
