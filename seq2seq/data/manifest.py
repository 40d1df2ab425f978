"""The manifest of a folder of prepared data: its files, their sizes and hashes, and what made them.

The manifest is written last, so a folder with a manifest is complete. Each start compares the
sizes; `data.verify=true` makes it read every byte. The report is not listed: its weights change
with those of a mixture.
"""

from __future__ import annotations

import importlib.metadata
import json
import logging
import platform
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NotRequired, TypedDict

from seq2seq.files import checksum, read_json, replace_text

log = logging.getLogger(__name__)

NAME = "manifest.json"
FORMAT = 2  # format 1 had a checksum beside each file
LIBRARIES = ("seq2seq", "tokenizers", "pyarrow", "duckdb", "py3langid")


class File(TypedDict):
    """The entry of a file in the manifest."""

    file: str
    bytes: int
    sha256: str
    source: NotRequired[int]  # number of the source whose cleaned text it holds


def write_manifest(folder: Path, files: Sequence[File], facts: dict[str, Any]) -> None:
    """Write the manifest, which also marks the folder as complete."""
    versions = {name: importlib.metadata.version(name) for name in LIBRARIES}
    said = {
        "format": FORMAT,
        "versions": {"python": platform.python_version(), **versions},
        **facts,
        "files": list(files),
    }
    replace_text(folder / NAME, json.dumps(said, ensure_ascii=False))


def read_manifest(folder: Path, verify: bool = False) -> dict[str, Any] | None:
    """Read the manifest of a folder; None if the folder is not complete.

    Args:
        folder: of prepared data.
        verify: read each file and compare its hash, not its size alone.
    """
    said = parse_manifest(folder)
    if said is None:
        return None
    damaged = [file["file"] for file in said["files"] if not is_whole(folder, file, verify)]
    for name in damaged:
        log.warning("%s is damaged or missing", folder / name)
    return None if damaged else said


def parse_manifest(folder: Path) -> dict[str, Any] | None:
    """Read a manifest without a look at its files; None if there is none of this format."""
    try:
        said = read_json(folder / NAME)
        if said["format"] != FORMAT:
            log.info("%s was prepared by another version of seq2seq", folder)
            return None
        _ = [(file["file"], file["bytes"], file["sha256"]) for file in said["files"]]
    except (OSError, ValueError, KeyError, TypeError):  # missing, or damaged
        return None
    return said


def is_whole(folder: Path, said: File, verify: bool) -> bool:
    """Tell whether a folder has a file of the right size and, with `verify`, the right hash."""
    path = folder / said["file"]
    with suppress(OSError):
        same = path.stat().st_size == said["bytes"]
        return same and (not verify or checksum(path) == said["sha256"])
    return False
