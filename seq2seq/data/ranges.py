"""Files of pairs cut into ranges of lines, or of rows of parquet, each of which is read alone.

Whoever reads a range needs no other one, so several processes and machines read one file. Packed
files have no ranges: nobody can begin inside them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow.parquet

CHUNK = 1 << 23  # bytes of a file that are looked at together
GRAINS = 100  # of a range: where it may end early because its text is long


@dataclass(frozen=True)
class Range:
    """Rows `first` up to `last` of a table, or lines of one file or of two.

    Attributes:
        first: the first one, counted from 0.
        last: the first one behind the range.
        starts: of text, the byte where the first line begins in each file.
    """

    first: int
    last: int
    starts: tuple[int, ...] = ()


def cut_parquet(path: Path, rows: int, size: int) -> Iterator[Range]:
    """Ranges of at most `rows` rows, and of about `size` bytes of text."""
    metadata = pyarrow.parquet.read_metadata(path)
    groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
    count, total = metadata.num_rows, sum(group.total_byte_size for group in groups)
    step = max(1, min(rows, size * count // max(total, 1)))
    for first in range(0, count, step):
        yield Range(first, min(first + step, count))


def row_groups(file: pyarrow.parquet.ParquetFile, rows: Range) -> tuple[list[int], int]:
    """The row groups that hold a range, and the number of the row that they begin with."""
    sizes = [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)]
    ends = np.cumsum([0, *sizes])
    first = int(np.searchsorted(ends, rows.first, side="right")) - 1
    last = int(np.searchsorted(ends, rows.last))
    return list(range(first, last)), int(ends[first])


def cut_text(files: Sequence[Path], header: int, rows: int, size: int) -> Iterator[Range]:
    """Ranges of at most `rows` lines, and of about `size` bytes.

    Args:
        files: a table; or two, line n of one belonging to line n of the other.
        header: lines that no range holds.
        rows, size: limits.

    Returns:
        Nothing if the files have different numbers of lines: who reads them in a row tells so.
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
    """The bytes where each `every`-th line behind the header begins, and the file ends; and the
    number of lines."""
    starts = [np.zeros(0 if header else 1, np.int64)]
    lines, position, ended = 0, 0, True
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            ends = np.flatnonzero(np.frombuffer(chunk, np.uint8) == ord("\n"))
            behind = lines + 1 - header + np.arange(len(ends))  # lines that begin behind these ends
            starts.append(position + 1 + ends[(behind >= 0) & (behind % every == 0)])
            lines, position, ended = lines + len(ends), position + len(chunk), chunk[-1:] == b"\n"
    found = np.concatenate(starts)
    return np.append(found[found < position], position), lines + (not ended)
