"""Find duplicate pairs; of equal pairs, the first in the order of the corpus stays.

Equal pairs have equal keys. Nearly equal pairs mostly share one of several keys (minhash.py).
"""

from __future__ import annotations

import functools
import secrets
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from seq2seq.data.engines import Engine
from seq2seq.data.shards import (
    read_keys,
    read_near_keys,
    read_table,
    read_texts,
    rows_of,
    whole_facts,
    write_table,
)
from seq2seq.data.steps import EXAMPLES
from seq2seq.errors import DataError

MEMORY = "768MiB"  # of one search; the rest goes to the disk
SCHEMA = pa.schema({"key": pa.uint64(), "place": pa.int64()})
Keys = Callable[[Path], np.ndarray]
KEYS: dict[str, Keys] = {"duplicate": read_keys, "near_duplicate": read_near_keys}


def mark_duplicates(
    engine: Engine,
    parts: Sequence[Path],
    *,
    fetch: Callable[[], None],
    file: Path,
    reasons: Sequence[str],
    threads: int | None,
) -> list[np.ndarray]:
    """Return the rows of each part that repeat an earlier pair.

    The rows are read from `file`, or found and written to it.

    Args:
        engine: runs the search.
        parts: files of cleaned text, in the order of the corpus.
        fetch: brings the parts to a machine.
        file: where the rows are stored.
        reasons: names of KEYS; pairs that share such a key are duplicates.
        threads: of each machine; None = one for each core.
    """
    sizes = [rows_of(path) for path in parts]
    if whole_facts(file).get("sizes") == sizes:
        return [np.asarray(row.values) for row in read_table(file)["row"]]
    found = [np.zeros(0, np.int64)] * len(parts)
    dropped: dict[str, int] = {}
    examples: dict[str, list[list[str]]] = {}
    for reason in reasons:
        same = repeated_rows(
            engine, parts, sizes, KEYS[reason], fetch=fetch, spill=file.parent, threads=threads
        )
        more = [np.setdiff1d(*two) for two in zip(same, found, strict=True)]
        dropped[reason], examples[reason] = sum(map(len, more)), []
        for path, rows in zip(parts, more, strict=True):
            if len(rows) and len(examples[reason]) < EXAMPLES:
                shown = zip(*read_texts(path, rows[:EXAMPLES]), strict=True)
                examples[reason] = [*examples[reason], *map(list, shown)][:EXAMPLES]
        found = [np.union1d(*two) for two in zip(found, more, strict=True)]
    facts = {"sizes": sizes, "dropped": dropped, "examples": examples}
    write_table(file, pa.table({"row": pa.array(found, pa.list_(pa.int64()))}), facts)
    return found


def repeated_rows(
    engine: Engine,
    parts: Sequence[Path],
    sizes: Sequence[int],
    keys: Keys,
    *,
    fetch: Callable[[], None],
    spill: Path,
    threads: int | None,
) -> list[np.ndarray]:
    """Return the rows of each part that share a key with an earlier row of any part.

    Keys have 64 bits: among the keys of 40 million different pairs, the chance that any two are
    equal is 0.004 %. Each machine searches a share of the keys; any number of machines finds the
    same rows.

    Args:
        engine, parts, fetch, threads: as for `mark_duplicates`.
        sizes: number of rows of each part.
        keys: reads the keys of a part, (n,) or (n, k); any of a row's k keys can match.
        spill: folder for data that does not fit into MEMORY.
    """
    read = functools.partial(_read_share, parts, sizes, keys)
    search = functools.partial(_repeated_places, read, fetch, spill, threads)
    shares = ((share, engine.machines) for share in range(engine.machines))
    found = np.unique(np.concatenate(list(engine.each(search, shares))))
    starts = np.cumsum([0, *sizes])
    owned = np.split(found, np.searchsorted(found, starts[1:-1]))
    return [rows - start for rows, start in zip(owned, starts[:-1], strict=False)]


def _repeated_places(
    read: Callable[[int, int], Iterator[pa.RecordBatch]],
    fetch: Callable[[], None],
    spill: Path,
    threads: int | None,
    share: int,
    of: int,
) -> np.ndarray:
    """Return the rows, numbered over all parts, that one share of the keys finds repeated."""
    import duckdb  # slow to import, and most runs find their data prepared

    fetch()
    settings: dict[str, Any] = {
        "memory_limit": MEMORY,
        # A lost task may still run on another machine while it is repeated here.
        "temp_directory": str(spill / f"spill-{share}.{secrets.token_hex(4)}.partial"),
        "preserve_insertion_order": False,
    }
    if threads is not None:
        settings["threads"] = threads
    try:
        with duckdb.connect(config=settings) as database:
            database.register("pairs", pa.RecordBatchReader.from_batches(SCHEMA, read(share, of)))
            database.execute(
                "CREATE TEMP TABLE repeated AS "
                "SELECT key, min(place) AS first FROM pairs GROUP BY key HAVING count(*) > 1"
            )
            database.register("pairs", pa.RecordBatchReader.from_batches(SCHEMA, read(share, of)))
            places: np.ndarray = database.execute(
                "SELECT place FROM pairs JOIN repeated USING (key) WHERE place > first"
            ).fetchnumpy()["place"]
    except (duckdb.Error, RuntimeError) as error:
        if "interrupt" in str(error).lower():
            raise KeyboardInterrupt from None  # DuckDB makes one of these errors of Ctrl-C
        if not isinstance(error, duckdb.OutOfMemoryException | duckdb.IOException):
            raise
        raise DataError(
            f"the search for duplicates failed ({error}). It needs memory, and room in {spill}: "
            "make room there, or choose another folder, data.cache=FOLDER, and start again"
        ) from error
    return places


def _read_share(
    parts: Sequence[Path], sizes: Sequence[int], keys: Keys, share: int, of: int
) -> Iterator[pa.RecordBatch]:
    """Yield the keys of one share, with the number of each key's row over all parts."""
    for path, start, size in zip(parts, np.cumsum([0, *sizes]), sizes, strict=False):
        own = keys(path)
        places = np.arange(start, start + size).repeat(own.size // max(size, 1))
        chosen = (own := own.ravel()) % of == share
        yield pa.record_batch([own[chosen], places[chosen]], schema=SCHEMA)
