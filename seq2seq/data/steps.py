"""The steps of preparation as functions on batches of rows: read, clean, tokenise.

Each takes and gives tables of Arrow or files of them, and needs nothing from another batch; so any
engine (engines.py) may run them, in any order, again if a process dies.
"""

from __future__ import annotations

import functools
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from seq2seq.data.cleaning import Cleaner, pair_key
from seq2seq.data.corpus import Pair
from seq2seq.data.manifest import File
from seq2seq.data.shards import (
    ids_table,
    read_facts,
    read_keys,
    read_texts,
    write_table,
    written_entry,
)
from seq2seq.data.sources import Source
from seq2seq.data.vocabularies import Vocabularies

PAIRS = 100_000  # in a block, unless their text is longer than CHARACTERS
CHARACTERS = 1 << 25
EXAMPLES = 3  # of each reason that drops pairs
SHOWN = 500  # characters of an example


@dataclass(frozen=True)
class Block:
    """Pairs that stand together in a source, as they were written.

    Attributes:
        source: its number.
        number: of the block in the source.
        pairs: a table of source and target.
    """

    source: int
    number: int
    pairs: pa.Table

    @property
    def file(self) -> str:
        """Name of the part that it becomes."""
        return f"{self.source:05d}-{self.number:06d}.arrow"


def read_blocks(source: Source, index: int) -> Iterator[Block]:
    """Cut a source into blocks."""
    number = characters = 0
    sides: tuple[list[str], list[str]] = ([], [])
    for pair in source.pairs():
        for side, text in zip(sides, pair, strict=True):
            side.append(text)
            characters += len(text)
        if len(sides[0]) == PAIRS or characters > CHARACTERS:
            yield Block(index, number, text_table(*sides))
            number, characters, sides = number + 1, 0, ([], [])
    if sides[0]:
        yield Block(index, number, text_table(*sides))


def text_table(source: list[str], target: list[str]) -> pa.Table:
    return pa.table(
        {"source": pa.array(source, pa.string()), "target": pa.array(target, pa.string())}
    )


def clean_rows(cleaner: Cleaner, pairs: pa.Table) -> tuple[pa.Table, dict[str, Any]]:
    """The pairs that are kept, with their keys; and what was dropped.

    Returns:
        A table of source, target and key; "read", "dropped" by reason with "examples", and
        "leaked", the keys that dropped pairs share with evaluation text.
    """
    sources: list[str] = []
    targets: list[str] = []
    keys: list[int] = []
    dropped: Counter[str] = Counter()
    examples: dict[str, list[list[str]]] = {}
    leaked: set[int] = set()
    for raw in zip(pairs["source"].to_pylist(), pairs["target"].to_pylist(), strict=True):
        source, target, reason = cleaner(*raw)
        if reason is None:
            sources.append(source)
            targets.append(target)
            keys.append(pair_key(source, target))
            continue
        dropped[reason] += 1
        if len(shown := examples.setdefault(reason, [])) < EXAMPLES:
            shown.append([text[:SHOWN] for text in raw])
        if reason == "leakage":
            leaked |= cleaner.leaked(source, target)
    column = pa.array(np.array(keys, np.uint64))
    table = text_table(sources, targets).append_column("key", column)
    facts = {
        "read": len(pairs),
        "dropped": dropped,
        "examples": examples,
        "leaked": sorted(leaked),
    }
    return table, facts


def clean_block(cleaner: Cleaner, folder: Path, block: Block) -> tuple[File, dict[str, Any]]:
    """Clean a block and write it as a part, unless it is there.

    Returns:
        The entry of the part, and the facts of `clean_rows`.
    """
    path = folder / block.file
    entry = written_entry(path)
    if entry is None:
        table, facts = clean_rows(cleaner, block.pairs)
        entry = write_table(path, table, facts, compression="zstd")
    else:
        facts = read_facts(path)
    entry["source"] = block.source
    return entry, facts


def sample_pairs(
    parts: Sequence[Path], left_out: Sequence[np.ndarray], size: int
) -> Iterator[Pair]:
    """About `size` pairs drawn by their keys: a random sample, the same each time."""
    kept = sum(len(read_keys(path)) for path in parts) - sum(map(len, left_out))
    bound = (2**64 - 1) * min(size, kept) // kept
    for path, without in zip(parts, left_out, strict=True):
        rows = np.flatnonzero(read_keys(path) <= np.uint64(bound))
        rows = np.setdiff1d(rows, without, assume_unique=True)
        yield from zip(*read_texts(path, rows), strict=True)


def tokenise_part(
    part: Path, left_out: np.ndarray, shard: Path, vocabulary: Path, dropout: float, variant: int
) -> File:
    """Write the ids of a part's pairs, all but some rows, unless they are there."""
    entry = written_entry(shard)
    if entry is None:
        sources, targets = read_texts(part)
        kept = np.ones(len(sources), bool)
        kept[left_out] = False
        texts = [
            [text for text, keep in zip(side, kept, strict=True) if keep]
            for side in (sources, targets)
        ]
        vocabularies = _load(vocabulary)
        both = (vocabularies.source, vocabularies.target)
        rng = random.Random(f"{part.name} {variant}")
        ids = [
            tokenizer.encode(side, dropout, rng)
            for side, tokenizer in zip(texts, both, strict=True)
        ]
        facts = {
            "pairs": len(texts[0]),
            "words": [sum(len(text.split()) for text in side) for side in texts],
            "characters": [sum(map(len, side)) for side in texts],
        }
        entry = write_table(shard, ids_table(ids[0], ids[1], max(vocabularies.sizes)), facts)
    return entry


@functools.cache
def _load(folder: Path) -> Vocabularies:
    return Vocabularies.load(folder)
