"""Tables on disk: Arrow files that are mapped into memory, each with its checksum beside it.

A file is written beside its place and moved there when whole. `<file>.json` comes last: it holds
the checksum and whatever else is worth knowing without opening the file.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from seq2seq.files import atomic_write, replace_text

CHUNK = 1 << 22  # bytes
SPARE_FILES = 256  # that the rest of the process may open
LONGEST = 2**16 - 1  # lengths above are kept as this one: no model takes so long a sentence


def write_table(
    path: Path, table: pa.Table, facts: dict[str, Any], compression: str | None = None
) -> None:
    """Write an Arrow file and its facts, replacing what is there."""
    facts_file(path).unlink(missing_ok=True)
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with atomic_write(path) as file:
        with pa.ipc.new_file(file, table.schema, options=options) as writer:
            for batch in table.combine_chunks().to_batches():
                writer.write_batch(batch)
        file.flush()
        check = {"bytes": file.tell(), "crc32": _crc32(Path(file.name))}
    write_json(facts_file(path), {**check, **facts})


def write_json(path: Path, value: Any) -> None:
    """Write a JSON file, whole or not at all."""
    replace_text(path, json.dumps(value, ensure_ascii=False))


def facts_file(path: Path) -> Path:
    return path.with_name(path.name + ".json")


def read_facts(path: Path) -> dict[str, Any]:
    """What was written beside the table."""
    facts: dict[str, Any] = json.loads(facts_file(path).read_text(encoding="utf-8"))
    return facts


def is_whole(path: Path) -> bool:
    """Whether a table is there with the very bytes that were written."""
    try:
        facts = read_facts(path)
        return bool(path.stat().st_size == facts["bytes"] and _crc32(path) == facts["crc32"])
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _crc32(path: Path) -> int:
    check = 0
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            check = zlib.crc32(chunk, check)
    return check


def read_table(path: Path, fields: list[int] | None = None) -> pa.Table:
    """An Arrow file, or some of its columns, mapped into memory."""
    mapped = pa.BufferReader(pa.py_buffer(np.memmap(path, dtype=np.uint8, mode="r")))
    options = pa.ipc.IpcReadOptions(included_fields=fields)
    return pa.ipc.open_file(mapped, options=options).read_all()


def ids_table(source: list[list[int]], target: list[list[int]], vocab_size: int) -> pa.Table:
    """Token ids of both sides, two bytes each where the vocabulary allows."""
    kind = pa.list_(pa.uint16() if vocab_size <= 2**16 else pa.int32())
    return pa.table({"source": pa.array(source, kind), "target": pa.array(target, kind)})


class Shards:
    """The pairs of several files of token ids, as if they stood in one.

    Attributes:
        lengths: (n, 2) source and target lengths, end marks included.
    """

    def __init__(self, paths: Sequence[Path]):
        self.paths = list(paths)
        self._open()
        lengths = [
            np.stack([np.diff(offsets) + 1 for offsets, _ in sides], axis=1)
            for sides in self._sides
        ]
        self.lengths = np.concatenate(
            [np.minimum(part, LONGEST).astype(np.uint16) for part in lengths]
            or [np.zeros((0, 2), np.uint16)]
        )

    def _open(self) -> None:
        _allow_open_files(len(self.paths))
        tables = [read_table(path) for path in self.paths]
        self._sides = [
            [_offsets_values(table.column(side)) for side in ("source", "target")]
            for table in tables
        ]
        sizes = [len(sides[0][0]) - 1 for sides in self._sides]
        self.starts = np.cumsum([0, *sizes])  # first pair of each file, and the number of pairs

    def __len__(self) -> int:
        return int(self.starts[-1])

    def ids(self, pairs: np.ndarray) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Source and target ids of some pairs, without marks."""
        files = np.searchsorted(self.starts, pairs, side="right") - 1
        places = (pairs - self.starts[files]).tolist()
        found: tuple[list[np.ndarray], list[np.ndarray]] = ([], [])
        for file, place in zip(files.tolist(), places, strict=True):
            for side, (offsets, values) in zip(found, self._sides[file], strict=True):
                side.append(values[offsets[place] : offsets[place + 1]])
        return found

    def tokens(self, side: int) -> list[np.ndarray]:
        """All ids of a side, one array for each file."""
        return [sides[side][1] for sides in self._sides]

    def __getstate__(self) -> dict[str, Any]:
        return {"paths": self.paths}  # who makes batches needs no lengths

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._open()  # maps are not copied to another process, only opened there again


def _allow_open_files(count: int) -> None:
    """Raise this process's limit of open files, which a large corpus would reach."""
    try:
        import resource
    except ImportError:  # Windows has no limit that could be raised
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = len(os.listdir("/dev/fd")) + count + SPARE_FILES
    if soft != resource.RLIM_INFINITY and soft < needed:
        most = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def _offsets_values(column: pa.ChunkedArray) -> tuple[np.ndarray, np.ndarray]:
    if column.num_chunks == 0:
        return np.zeros(1, np.int32), np.zeros(0, np.uint16)
    [lists] = column.chunks
    return lists.offsets.to_numpy(), lists.values.to_numpy()
