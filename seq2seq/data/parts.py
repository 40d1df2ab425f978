"""The first step of preparation: sources -> cleaned text in parts of about 100,000 pairs.

A part is an Arrow file `<source>-<number>.arrow` with the columns `source`, `target` and `key`
(what duplicates share); its facts say how many pairs were read, dropped and why. Parts do not
depend on each other, so processes and machines can share them, and what is there is not made again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa
from tqdm import tqdm

from seq2seq.data.cleaning import Cleaner, pair_key, text_key
from seq2seq.data.corpus import Pair
from seq2seq.data.shards import (
    facts_file,
    is_whole,
    read_facts,
    read_table,
    write_json,
    write_table,
)
from seq2seq.data.sources import Source, text_bytes
from seq2seq.data.workers import in_parallel

PAIRS = 100_000  # in a part, unless their text is longer than CHARACTERS
CHARACTERS = 1 << 25
EXAMPLES = 3  # of each reason that drops pairs
SHOWN = 500  # characters of an example


@dataclass(frozen=True)
class Block:
    """The pairs that one part is made of."""

    source: int
    number: int
    pairs: list[Pair]

    @property
    def characters(self) -> int:
        return sum(len(source) + len(target) for source, target in self.pairs)


def clean_sources(
    sources: Sequence[Source],
    cleaner: Cleaner,
    folder: Path,
    processes: int | None,
    task: int = 0,
    tasks: int = 1,
) -> None:
    """Make the parts that are missing or damaged.

    Args:
        sources: what is read.
        cleaner: what is done with each pair.
        folder: where the parts go.
        processes: that share the work.
        task, tasks: this one of several programs that share it further; a program takes whole
            sources where there are enough of them, else every so many parts of each.
    """

    def is_mine(index: int, number: int) -> bool:
        return (index if len(sources) >= tasks else index + number) % tasks == task

    def is_done(index: int) -> bool:
        paths = source_parts(folder, index)
        return paths is not None and all(
            is_whole(path) for number, path in enumerate(paths) if is_mine(index, number)
        )

    def jobs() -> Iterator[tuple[Cleaner, Block, Path]]:
        for index, source in enumerate(sources):
            if (len(sources) >= tasks and not is_mine(index, 0)) or is_done(index):
                continue
            for block in _read_blocks(source, index, folder):
                bar.update(block.characters)
                if is_mine(index, block.number) and not is_whole(part_file(folder, block)):
                    yield cleaner, block, folder

    size = text_bytes(sources)
    with tqdm(total=size, desc="cleaning", unit="B", unit_scale=True, disable=None) as bar:
        for _ in in_parallel(clean_block, jobs(), processes):
            pass


def _read_blocks(source: Source, index: int, folder: Path) -> Iterator[Block]:
    """Cut a source into blocks; at its end, leave a note of how many there are."""
    number = total = characters = 0
    pairs: list[Pair] = []
    for pair in source.pairs():
        pairs.append(pair)
        characters += len(pair[0]) + len(pair[1])
        if len(pairs) == PAIRS or characters >= CHARACTERS:
            yield Block(index, number, pairs)
            number, total, characters, pairs = number + 1, total + len(pairs), 0, []
    if pairs:
        yield Block(index, number, pairs)
        number, total = number + 1, total + len(pairs)
    write_json(_end_file(folder, index), {"blocks": number, "pairs": total})


def part_file(folder: Path, block: Block) -> Path:
    return _part_file(folder, block.source, block.number)


def _part_file(folder: Path, source: int, number: int) -> Path:
    return folder / f"{source:05d}-{number:06d}.arrow"


def _end_file(folder: Path, source: int) -> Path:
    return folder / f"{source:05d}-end.json"


def source_parts(folder: Path, source: int) -> list[Path] | None:
    """The parts that a source was cut into, made or not; None = it was not read to its end."""
    try:
        blocks = read_facts(folder / f"{source:05d}-end")["blocks"]
    except (OSError, ValueError, KeyError):
        return None
    return [_part_file(folder, source, number) for number in range(blocks)]


def all_parts(folder: Path, sources: int) -> list[list[Path]] | None:
    """The parts of each source; None = some are still to be made."""
    found = [source_parts(folder, source) for source in range(sources)]
    parts = [paths for paths in found if paths is not None]
    whole = all(facts_file(path).exists() for path in chain.from_iterable(parts))
    return parts if whole and len(parts) == sources else None


def clean_block(cleaner: Cleaner, block: Block, folder: Path) -> None:
    """Clean the pairs of one part and write it."""
    sources, targets, keys = [], [], []
    dropped: Counter[str] = Counter()
    examples: dict[str, list[Pair]] = {}
    leaked: set[int] = set()
    for raw_source, raw_target in block.pairs:
        source, target, reason = cleaner(raw_source, raw_target)
        if reason is None:
            sources.append(source)
            targets.append(target)
            keys.append(pair_key(source, target))
            continue
        dropped[reason] += 1
        if len(shown := examples.setdefault(reason, [])) < EXAMPLES:
            shown.append((raw_source[:SHOWN], raw_target[:SHOWN]))
        if reason == "leakage":
            leaked.update((text_key(source), text_key(target)))
    table = pa.table(
        {
            "source": pa.array(sources, pa.string()),
            "target": pa.array(targets, pa.string()),
            "key": pa.array(np.array(keys, np.uint64)),
        }
    )
    facts = {
        "read": len(block.pairs),
        "dropped": dropped,
        "examples": examples,
        "leaked": sorted(leaked),
    }
    write_table(part_file(folder, block), table, facts, compression="zstd")


def read_texts(path: Path, rows: np.ndarray | None = None) -> tuple[list[str], list[str]]:
    """Sources and targets of a part, or of some of its rows."""
    table = read_table(path)
    if rows is not None:
        table = table.take(rows)
    return table["source"].to_pylist(), table["target"].to_pylist()


def read_keys(path: Path) -> np.ndarray:
    """The keys of a part's pairs."""
    keys: np.ndarray = read_table(path, fields=[2])["key"].to_numpy()
    return keys
