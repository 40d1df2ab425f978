"""The steps of preparation as functions on batches of rows: read, clean, tokenise.

Each step writes an Arrow file, and needs nothing from another batch. So any engine (engines.py) may
run the steps, in any order, and again if a process dies.
"""

from __future__ import annotations

import functools
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from seq2seq.data.cleaning import Cleaner, pair_key
from seq2seq.data.corpus import Pair
from seq2seq.data.manifest import File
from seq2seq.data.minhash import BANDS, near_keys
from seq2seq.data.shards import (
    file_entry,
    ids_table,
    read_keys,
    read_texts,
    rows_of,
    whole_facts,
    write_table,
)
from seq2seq.data.sources import FileSource, Source
from seq2seq.data.store import Store
from seq2seq.data.vocabularies import FILES, Vocabularies
from seq2seq.errors import DataError

PAIRS = 100_000  # pairs in a block; fewer if their text is longer than CHARACTERS
CHARACTERS = 1 << 25
EXAMPLES = 3  # examples of each reason that drops pairs
SHOWN = 500  # characters of an example


@dataclass(frozen=True)
class Block:
    """Consecutive pairs of a source.

    Attributes:
        source: number of the source.
        number: number of the block in the source.
        rows: first row of the block in the source, and first row after the block.
        text: the range of a file that holds the pairs; or the pairs, if they were read already.
    """

    source: int
    number: int
    rows: tuple[int, int]
    text: FileSource | list[Pair]

    @property
    def file(self) -> str:
        """Name of the file of its cleaned pairs."""
        return f"{self.source:05d}-{self.number:06d}.arrow"

    def pairs(self) -> Iterable[Pair]:
        return self.text.pairs() if isinstance(self.text, FileSource) else self.text


def cut_source(source: Source, index: int) -> Iterator[Block]:
    """Cut a source into blocks; if a file can be cut into ranges, its pairs are not read yet."""
    parts = source.cut(PAIRS, CHARACTERS) if isinstance(source, FileSource) else []
    for number, part in enumerate(parts):
        assert part.rows is not None
        yield Block(index, number, (part.rows.first, part.rows.last), part)
    if not parts:
        yield from _read_blocks(source, index)


def _read_blocks(source: Source, index: int) -> Iterator[Block]:
    number = last = characters = 0
    pairs: list[Pair] = []
    for pair in chain(source.pairs(), [None]):
        if pairs and (pair is None or len(pairs) == PAIRS or characters > CHARACTERS):
            yield Block(index, number, (last - len(pairs), last), pairs)
            number, characters, pairs = number + 1, 0, []
        if pair is not None:
            pairs.append(pair)
            last, characters = last + 1, characters + len(pair[0]) + len(pair[1])


def clean_rows(cleaner: Cleaner, pairs: Iterable[Pair]) -> tuple[pa.Table, dict[str, Any]]:
    """Clean pairs: return the kept pairs with their keys, and facts about the dropped pairs.

    Returns:
        A table of source, target and key, and of keys that find near duplicates if the filter is
        on; and the facts "read", "dropped" by reason with "examples", "judged" (how many kept pairs
        are long enough to have a language) and "leaked" (the keys that pairs dropped by the filter
        `leakage`, or without this filter kept pairs, share with evaluation text).
    """
    sources: list[str] = []
    targets: list[str] = []
    keys: list[int] = []
    dropped: Counter[str] = Counter()
    examples: dict[str, list[list[str]]] = {}
    leaked: set[int] = set()
    judged, least = 0, cleaner.config.language_from
    leaks = "leakage" if "leakage" in cleaner.config.filters else None  # None = kept pairs
    for raw in pairs:
        source, target, reason = cleaner(*raw)
        if reason == leaks:
            leaked |= cleaner.leaked(source, target)
        if reason is None:
            sources.append(source)
            targets.append(target)
            keys.append(pair_key(source, target))
            judged += max(source.count(" "), target.count(" ")) + 1 >= least
            continue
        dropped[reason] += 1
        if len(shown := examples.setdefault(reason, [])) < EXAMPLES:
            shown.append([text[:SHOWN] for text in raw])
    columns = {
        "source": pa.array(sources, pa.string()),
        "target": pa.array(targets, pa.string()),
        "key": pa.array(keys, pa.uint64()),
    }
    if "near_duplicate" in cleaner.config.filters:
        near = pa.array(near_keys(sources, targets).ravel())
        columns["near"] = pa.FixedSizeListArray.from_arrays(near, BANDS)
    facts = {
        "read": len(sources) + dropped.total(),
        "dropped": dropped,
        "examples": examples,
        "judged": judged,
        "leaked": sorted(leaked),
    }
    return pa.table(columns), facts


def clean_block(cleaner: Cleaner, store: Store, folder: Path, block: Block) -> File:
    """Clean a block, write it as a part unless the part exists, and return the part's entry."""
    path, rows = folder / block.file, list(block.rows)
    entry = _find_written(store, path, "rows", rows)
    if entry is None:
        table, facts = clean_rows(cleaner, block.pairs())
        entry = write_table(path, table, {**facts, "rows": rows}, compression="zstd")
        store.put(path)
    return {**entry, "source": block.source}


def _find_written(store: Store, path: Path, fact: str, value: Any) -> File | None:
    """Return the entry of a whole table written before, here or elsewhere, of this fact."""
    store.get(path)
    if whole_facts(path).get(fact) != value:
        return None
    store.put(path, missing=True)  # its writer may have stopped before this
    return file_entry(path)


@dataclass(frozen=True)
class Part:
    """A part of the cleaned text.

    Attributes:
        path: of the file.
        entry: of the file, for the manifest.
        left_out: rows that repeat earlier pairs.
    """

    path: Path
    entry: File
    left_out: np.ndarray


def sample_pairs(parts: Sequence[Part], size: int) -> Iterator[Pair]:
    """Yield about `size` pairs drawn by their keys: a random sample, the same each time."""
    kept = sum(rows_of(part.path) - len(part.left_out) for part in parts)
    bound = (2**64 - 1) * min(size, kept) // max(kept, 1)
    for part in parts:
        rows = np.flatnonzero(read_keys(part.path) <= np.uint64(bound))
        rows = np.setdiff1d(rows, part.left_out, assume_unique=True)
        yield from zip(*read_texts(part.path, rows), strict=True)


def tokenise_part(
    part: Part,
    shard: Path,
    variant: int,
    *,
    store: Store,
    vocabulary: Path,
    content_hash: str,
    dropout: float,
) -> File:
    """Write the ids of a part's pairs, unless the shard exists.

    Args:
        part: the pairs.
        shard: path of the file to write.
        variant: number of the segmentation, if BPE-dropout makes several.
        store: holds parts and shards, too, for machines without a shared disk.
        vocabulary: folder of the vocabularies.
        content_hash: of the vocabularies.
        dropout: rate of BPE-dropout.
    """
    entry = _find_written(store, shard, "part", part.entry["sha256"])
    if entry is None:
        store.get_written(part.path.parent, [part.entry])
        kept = np.delete(np.arange(rows_of(part.path)), part.left_out)
        texts = read_texts(part.path, kept)
        vocabularies = _load(store, vocabulary, content_hash)
        rng = random.Random(f"{part.path.name} {variant}")
        sources = vocabularies.source.encode(texts[0], dropout, rng)
        targets = vocabularies.target.encode(texts[1], dropout, rng)
        facts = {
            "part": part.entry["sha256"],
            "pairs": len(texts[0]),
            "words": [sum(len(text.split()) for text in side) for side in texts],
            "characters": [sum(map(len, side)) for side in texts],
        }
        entry = write_table(shard, ids_table(sources, targets, max(vocabularies.sizes)), facts)
        store.put(shard)
    return entry


@functools.cache
def _load(store: Store, folder: Path, content_hash: str) -> Vocabularies:
    store.get(*(folder / name for name in FILES))
    found = Vocabularies.load(folder)
    if found.content_hash() != content_hash:
        raise DataError(f"{folder} is damaged: remove it, here and in data.store, and start again")
    return found
