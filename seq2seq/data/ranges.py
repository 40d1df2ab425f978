"""Cut files of pairs into ranges of lines, or of parquet rows, that are read independently.

So several processes and machines can read one file. Compressed files have no ranges, since reading
cannot begin inside them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow.parquet

CHUNK = 1 << 23  # bytes of a file that are searched at once
GRAINS = 100  # steps of a range; it may end early after each of them because its text is long


@dataclass(frozen=True)
class Range:
    """A range of rows of a table, or of lines of one file or of two.

    Attributes:
        first: the first row or line, counted from 0.
        last: the first row or line after the range.
        starts: for text, the byte where line `first` begins in each file.
    """

    first: int
    last: int
    starts: tuple[int, ...] = ()


def cut_parquet(path: Path, rows: int, size: int) -> Iterator[Range]:
    """Cut a parquet file into ranges of at most `rows` rows and about `size` bytes of text."""
    metadata = pyarrow.parquet.read_metadata(path)
    groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
    count, total = metadata.num_rows, sum(group.total_byte_size for group in groups)
    step = max(1, min(rows, size * count // max(total, 1)))
    for first in range(0, count, step):
        yield Range(first, min(first + step, count))


def row_groups(file: pyarrow.parquet.ParquetFile, rows: Range) -> tuple[list[int], int]:
    """Return the row groups that hold a range, and the number of their first row."""
    sizes = [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)]
    ends = np.cumsum([0, *sizes])
    first = int(np.searchsorted(ends, rows.first, side="right")) - 1
    last = int(np.searchsorted(ends, rows.last))
    return list(range(first, last)), int(ends[first])


def cut_text(files: Sequence[Path], header: int, rows: int, size: int) -> Iterator[Range]:
    """Cut text into ranges of at most `rows` lines and about `size` bytes.

    Args:
        files: a table; or two files, of which lines n belong together.
        header: number of lines at the start that are in no range.
        rows, size: limits of a range.

    Returns:
        Nothing if the files have different numbers of lines: reading them whole then says so.
    """
    grain = max(1, rows // GRAINS)
    found = [_line_starts(path, header, grain) for path in files]
    if len({lines for _, lines in found}) != 1:
        return
    starts, lines = np.stack([own for own, _ in found], axis=1), found[0][1]
    first = 0
    while first < len(starts) - 1:
        ends = starts[first + 1 : first + rows // grain + 1]
        count = max(1, int(np.searchsorted((ends - starts[first]).sum(axis=1), size, side="right")))
        begin = header + first * grain
        yield Range(begin, min(begin + count * grain, lines), tuple(starts[first].tolist()))
        first += count


def _line_starts(path: Path, header: int, every: int) -> tuple[np.ndarray, int]:
    """Return the bytes where every `every`-th line after the header begins and where the file
    ends, and the number of lines."""
    starts = [np.zeros(0 if header else 1, np.int64)]
    lines, position, ended = 0, 0, True
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            ends = np.flatnonzero(np.frombuffer(chunk, np.uint8) == ord("\n"))
            behind = lines + 1 - header + np.arange(len(ends))  # lines that begin after these ends
            starts.append(position + 1 + ends[(behind >= 0) & (behind % every == 0)])
            lines, position, ended = lines + len(ends), position + len(chunk), chunk[-1:] == b"\n"
    found = np.concatenate(starts)
    return np.append(found[found < position], position), lines + (not ended)
