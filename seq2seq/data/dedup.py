"""Which pairs stand in the corpus more than once; the first of them, in its order, survives."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa

from seq2seq.data.corpus import Pair
from seq2seq.data.shards import read_facts, read_keys, read_table, read_texts, write_table
from seq2seq.data.steps import EXAMPLES

MEMORY = "768MiB"  # of one search; what is more goes to the disk
SCHEMA = pa.schema({"key": pa.uint64(), "place": pa.int64()})
Keys = Callable[[Path], np.ndarray]


def mark_duplicates(parts: Sequence[Path], file: Path, threads: int | None) -> list[np.ndarray]:
    """For each part, the rows whose pair stands before; read from `file`, or found and written."""
    with suppress(OSError, ValueError):
        if read_facts(file)["parts"] == len(parts):
            return read_duplicates(file)
    found = repeated_rows(parts, file.parent, threads=threads)
    examples: list[Pair] = []
    for path, rows in zip(parts, found, strict=True):
        if len(rows) and len(examples) < EXAMPLES:
            examples += zip(*read_texts(path, rows[:EXAMPLES]), strict=True)
    pairs = sum(map(len, found))
    facts = {"parts": len(parts), "pairs": pairs, "examples": examples[:EXAMPLES]}
    write_table(file, pa.table({"row": pa.array(found, pa.list_(pa.int64()))}), facts)
    return found


def read_duplicates(file: Path) -> list[np.ndarray]:
    """The rows of each part that `mark_duplicates` wrote."""
    return [np.asarray(row.values) for row in read_table(file)["row"]]


def repeated_rows(
    parts: Sequence[Path], spill: Path, keys: Keys = read_keys, threads: int | None = None
) -> list[np.ndarray]:
    """For each part, the rows whose pair stands before, in it or in an earlier part.

    Equal pairs have equal keys (of 64 bits: among 40 million different pairs, the chance that
    any two share one is 0.004 %).

    Args:
        parts: files of cleaned text, in the order of the corpus.
        spill: folder for what does not fit into MEMORY.
        keys: reads the keys of a part.
        threads: None = one for each core.
    """
    import duckdb  # takes a while, and most runs find their data prepared

    starts = np.cumsum([0, *(len(keys(path)) for path in parts)])
    with duckdb.connect(config={"memory_limit": MEMORY, "temp_directory": str(spill)}) as database:
        if threads is not None:
            database.execute(f"SET threads = {threads}")
        database.execute("SET preserve_insertion_order = false")
        pairs = _reader(parts, starts, keys)
        database.execute(
            "CREATE TEMP TABLE repeated AS "
            "SELECT key, min(place) AS first FROM pairs GROUP BY key HAVING count(*) > 1"
        )
        pairs = _reader(parts, starts, keys)  # noqa: F841  DuckDB finds it by its name
        places = database.execute(
            "SELECT place FROM pairs JOIN repeated USING (key) WHERE place > first ORDER BY place"
        ).fetchnumpy()["place"]
    owners = np.searchsorted(places, starts)
    return [
        places[first:last] - start
        for first, last, start in zip(owners[:-1], owners[1:], starts[:-1], strict=True)
    ]


def _reader(parts: Sequence[Path], starts: np.ndarray, keys: Keys) -> pa.RecordBatchReader:
    def batches() -> Iterator[pa.RecordBatch]:
        for path, start in zip(parts, starts[:-1], strict=True):
            own = keys(path)
            yield pa.record_batch([own, np.arange(start, start + len(own))], schema=SCHEMA)

    return pa.RecordBatchReader.from_batches(SCHEMA, batches())
