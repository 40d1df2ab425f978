"""Whether an output file may be written, and what is to be the same when it is gone on with."""

from __future__ import annotations

import argparse
import hashlib
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from seq2seq.cli.partial_file import beside
from seq2seq.errors import DataError, RunError

LONGEST_NAME = 255 - len(".partial.json.new")  # bytes, as most file systems allow

# What may be otherwise when one goes on: it changes nothing in the answers.
FREE = ("texts", "file", "output", "resume", "force", "model", "device", "batch_tokens", "quiet",
        "attention", "cuda_graphs")  # fmt: skip


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


def check_output(options: argparse.Namespace) -> None:
    """See to it that the output can be written; asks before a file is replaced.

    Raises:
        RunError: it cannot, or shall not.
    """
    output = options.output
    if output is None:
        return
    if len(os.fsencode(output.name)) > LONGEST_NAME:
        raise RunError(
            f"the name of --output {output} is too long: give one of at most {LONGEST_NAME} bytes"
        )
    if not output.parent.is_dir():
        raise RunError(
            f"the folder of --output {output} does not exist: make it (mkdir -p {output.parent}) "
            "or name another"
        )
    if output.is_dir():
        raise RunError(f"--output {output} is a folder: name a file in it")
    if output.exists() and not output.is_file():
        raise RunError(
            f"--output {output} is no ordinary file, and only such a one can be written whole or "
            f"not at all: leave --output out and redirect, translate ... > {output}"
        )
    if _is_input(output, options):
        raise DataError(f"--output {output} is the input too: give it another name")
    if options.force or (options.resume and beside(output).exists()):
        return
    if beside(output).exists():
        raise RunError(
            f"{beside(output)} is left from a translation that was interrupted: go on with "
            "--resume, or begin anew with --force"
        )
    if output.exists() and not _may_replace(output, options):
        raise RunError(f"{output} exists already: name another --output, or add --force")


def _is_input(output: Path, options: argparse.Namespace) -> bool:
    if not output.exists():
        return False
    if options.file:
        return output.samefile(options.file)
    return not options.texts and os.path.samestat(os.fstat(sys.stdin.fileno()), output.stat())


def _may_replace(output: Path, options: argparse.Namespace) -> bool:
    if options.quiet or sys.stdin is None or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    print(f"{output} exists already. Replace it? [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def made_with(options: argparse.Namespace, folders: Iterable[Path]) -> dict[str, Any]:
    """What an output depends on besides the input, by name: models and options."""
    models = " ".join(_fingerprint(folder) for folder in folders)
    given = {name: value for name, value in vars(options).items() if name not in FREE}
    return {"model": models, **given, "precision": _precision(options)}


def _precision(options: argparse.Namespace) -> str:
    """The name of the arithmetic, which with auto depends on the device."""
    if options.engine == "ctranslate2":
        from seq2seq.inference.ctranslate2_device import precision_on

        return precision_on(options.device, options.precision)
    from seq2seq.inference.device import choose_device
    from seq2seq.inference.precision import choose_precision

    return choose_precision(options.precision, choose_device(options.device))


def _fingerprint(folder: Path) -> str:
    """Letters that differ where two models do; folder of a run or a bundle."""
    bundle = folder / "bundle" if (folder / "bundle").is_dir() else folder
    digest = hashlib.sha256()
    for path in sorted(bundle.glob("*")):
        if path.is_file():
            with path.open("rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()[:16]
