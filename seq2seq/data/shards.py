"""Arrow tables on disk, mapped into memory; `Shards` reads the ids of many files as if of one.

A table is written atomically, with facts about it and a hash of both in the metadata of its schema,
so that it needs no second file beside it.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from seq2seq.data.manifest import File
from seq2seq.files import atomic_write, checksum

FACTS, HASH = b"facts", b"sha256"  # in the metadata of a schema
SPARE_FILES = 256  # files that the rest of the process may open
LONGEST = 2**16 - 1  # greater lengths are stored as this: no model takes so long a sentence


def write_table(
    path: Path, table: pa.Table, facts: dict[str, Any], compression: str | None = None
) -> File:
    """Write an Arrow file with its facts, replacing an older file, and return its entry."""
    said = json.dumps(facts, ensure_ascii=False).encode("utf-8", "backslashreplace")
    table = table.combine_chunks()
    table = table.replace_schema_metadata({FACTS: said, HASH: _hash(table, said)})
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with atomic_write(path) as file:
        with pa.ipc.new_file(file, table.schema, options=options) as writer:
            writer.write_table(table)
        file.flush()
        return file_entry(Path(file.name), path.name)


def file_entry(path: Path, name: str | None = None) -> File:
    """Return the entry of a file for a manifest."""
    return {"file": name or path.name, "bytes": path.stat().st_size, "sha256": checksum(path)}


def read_facts(path: Path) -> dict[str, Any]:
    """Read the facts that were written with a table."""
    return json.loads(_open(path).schema.metadata[FACTS])


def whole_facts(path: Path) -> dict[str, Any]:
    """Read the facts of a table; none if it is missing, or is not what was written."""
    with suppress(OSError, ValueError, KeyError, TypeError, pa.ArrowException):
        table = read_table(path)
        table.validate(full=True)
        said = table.schema.metadata
        if said[HASH] == _hash(table, said[FACTS]):
            return json.loads(said[FACTS])
    return {}


def _hash(table: pa.Table, facts: bytes) -> bytes:
    """Hash columns, rows and facts, however the file is compressed."""
    digest = hashlib.sha256(facts + table.schema.remove_metadata().serialize().to_pybytes())
    for batch in table.to_batches():
        digest.update(batch.serialize())
    return digest.hexdigest().encode()


def read_table(path: Path, fields: list[int] | None = None) -> pa.Table:
    """Map an Arrow file, or some of its columns, into memory."""
    return _open(path, fields).read_all()


def _open(path: Path, fields: list[int] | None = None) -> pa.ipc.RecordBatchFileReader:
    mapped = pa.BufferReader(pa.py_buffer(np.memmap(path, dtype=np.uint8, mode="r")))
    return pa.ipc.open_file(mapped, options=pa.ipc.IpcReadOptions(included_fields=fields))


def read_texts(path: Path, rows: np.ndarray | None = None) -> tuple[list[str], list[str]]:
    """Read the sources and targets of a part of cleaned text, or of some of its rows."""
    table = read_table(path, fields=[0, 1])
    if rows is not None:
        table = table.take(rows)
    return table["source"].to_pylist(), table["target"].to_pylist()


def rows_of(path: Path) -> int:
    """Return how many pairs a part of cleaned text has, without reading them."""
    facts = read_facts(path)
    return int(facts["read"] - sum(facts["dropped"].values()))


def read_keys(path: Path) -> np.ndarray:
    """Read the keys of the pairs of a part of cleaned text, (n,)."""
    return read_table(path, fields=[2])["key"].to_numpy()


def read_near_keys(path: Path) -> np.ndarray:
    """Read the keys that find nearly equal pairs, (n, k)."""
    column = read_table(path, fields=[3])["near"].combine_chunks()
    keys: np.ndarray = column.flatten().to_numpy()
    return keys.reshape(len(column), column.type.list_size)


def ids_table(source: list[list[int]], target: list[list[int]], vocab_size: int) -> pa.Table:
    """Make a table of the token ids of both sides, with two bytes each if the vocabulary allows."""
    kind = pa.list_(pa.uint16() if vocab_size <= 2**16 else pa.int32())
    return pa.table({"source": pa.array(source, kind), "target": pa.array(target, kind)})


def write_lengths(path: Path, shards: Sequence[Path]) -> File:
    """Write the lengths of all pairs of some shards, end marks included, as one (n, 2) array."""
    with atomic_write(path) as file:
        sizes = [len(read_table(shard)) for shard in shards]
        header = {"descr": "<u2", "fortran_order": False, "shape": (sum(sizes), 2)}
        np.lib.format.write_array_header_1_0(file, header)
        for shard in shards:
            sides = [np.diff(offsets) + 1 for offsets, _ in _sides(shard)]
            lengths = np.minimum(np.stack(sides, axis=1), LONGEST)
            file.write(lengths.astype("<u2").tobytes())
        file.flush()
        return file_entry(Path(file.name), path.name)


class Shards:
    """The pairs of several files of token ids, as if they were in one file.

    Attributes:
        lengths: (n, 2) source and target lengths, end marks included; mapped into memory.
    """

    def __init__(self, paths: Sequence[Path], lengths: Path):
        self.paths, self._lengths_path = list(paths), lengths
        self.lengths: np.ndarray = np.load(lengths, mmap_mode="r")
        _allow_open_files(len(self.paths))
        self._sides = [_sides(path) for path in self.paths]
        sizes = [len(sides[0][0]) - 1 for sides in self._sides]
        self.starts = np.cumsum([0, *sizes])  # first pair of each file, then the number of pairs

    def __len__(self) -> int:
        return int(self.starts[-1])

    def ids(self, pairs: np.ndarray) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Return source and target ids of some pairs, without special tokens."""
        files = np.searchsorted(self.starts, pairs, side="right") - 1
        places = (pairs - self.starts[files]).tolist()
        found: tuple[list[np.ndarray], list[np.ndarray]] = ([], [])
        for file, place in zip(files.tolist(), places, strict=True):
            for side, (offsets, values) in zip(found, self._sides[file], strict=True):
                side.append(values[offsets[place] : offsets[place + 1]])
        return found

    def tokens(self, side: int) -> Iterator[np.ndarray]:
        """Yield all ids of a side, one array for each file.

        Each file is mapped anew, so that its pages leave memory when the next one is read.
        """
        return (_sides(path)[side][1] for path in self.paths)

    def __reduce__(self) -> tuple[type[Shards], tuple[list[Path], Path]]:
        return Shards, (self.paths, self._lengths_path)  # another process maps the files again


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


def _sides(path: Path) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return the offsets and values of the ids of both sides."""
    columns = read_table(path).select(["source", "target"]).columns
    empty = pa.array([], columns[0].type)
    lists = [column.chunk(0) if column.num_chunks else empty for column in columns]
    return [(own.offsets.to_numpy(), own.values.to_numpy()) for own in lists]
