"""Parallel text from files. `find_files` turns a setting such as `data.val=val` into files, and
`read_pairs` reads them::

    parquet          two columns of text, or one column `translation` that holds both languages
    .tsv             columns separated by tabs; the first line names them, or they have numbers
    .jsonl, .json    one object in each line, `{"en": ..., "fr": ...}`, or the same inside
                     `translation` (columns that choose rows may be beside it, in parquet, too)
    any other name   plain text: two files, line n of one translates line n of the other

All but parquet may be compressed (`.gz`, `.zst`), and any may be cut into shards, `train-*.tsv.gz`.
Text is UTF-8. Only a line feed ends a line, with or without a carriage return before it.
No other module parses corpus files.
"""

from __future__ import annotations

import glob
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice, zip_longest
from pathlib import Path
from types import MappingProxyType

import pyarrow
import pyarrow.parquet

from seq2seq.data.ranges import Range, row_groups
from seq2seq.errors import DataError
from seq2seq.lines import PACKED, lines_of

TABLES = {".parquet": "parquet", ".tsv": "tsv", ".jsonl": "jsonl", ".json": "jsonl"}
PACKINGS = ("", *PACKED)
Pair = tuple[str, str]
Columns = tuple[str, ...]


def find_files(spec: object, folder: str | None, columns: tuple[str, str]) -> list[Path]:
    """Find the files that a setting such as `data.train` means, in a stable order.

    Args:
        spec: a path, a glob, the stem of files in `folder`, or a list of these. Plain text
            comes as two files, source then target (`[train.en, train.fr]`), or as two globs
            (`[part-*.en, part-*.fr]`), whose files are paired in the order of their names, which
            must differ in the language alone. A stem finds both files by the column names
            (`train.en`, `train.fr`).
        folder: where relative names are looked up; None = the current folder.

    Raises:
        DataError: no file is found, or plain text has no partner; says where it looked and what
            it found instead.
    """
    base = Path(folder).expanduser() if folder else Path()
    if folder and not base.is_dir():
        raise DataError(
            f"data.path={folder} is not a folder (looked in {base.resolve()}): "
            "give the folder that holds the corpus files"
        )
    specs = list(spec) if isinstance(spec, (list, tuple)) else [spec]
    if not specs:
        raise DataError("an empty list names no corpus file: give at least one")
    found = [_find_one(str(item), base, columns) for item in specs]
    patterns = len(specs) == 2 and any(glob.has_magic(str(item)) for item in specs)
    if patterns and all(kind_of(path) == "text" for paths in found for path in paths):
        names = [str(base / Path(str(item)).expanduser()) for item in specs]
        found = [_side_by_side(spec, names, columns, *found)]
    files = [path for paths in found for path in paths]
    text = [path for path in files if kind_of(path) == "text"]
    if text and (len(text) != len(files) or len(files) % 2):
        raise DataError(
            f"plain text needs two files, source then target, but {spec!r} means "
            f"{_listed(map(str, files))}: give a list such as [train.en,train.fr]"
        )
    return files


def _side_by_side(
    spec: object, patterns: list[str], columns: Columns, source: list[Path], target: list[Path]
) -> list[Path]:
    """Pair shards of plain text, in the order source, target, source, ..."""
    if len(source) != len(target):
        raise DataError(
            f"{spec!r} means {len(source)} source but {len(target)} target file(s), so some have "
            f"no partner: {_listed(path.name for path in (*source, *target))}"
        )
    for pair in zip(source, target, strict=True):
        left, right = map(_wildcards, patterns, pair, (columns, columns))
        if left != right and len(left) == len(right):
            raise DataError(
                f"{spec!r} pairs {pair[0].name} with {pair[1].name}, but their names differ in "
                "more than the language: add the file that is missing, or write what differs into "
                "the patterns, such as [src/*.eng,tgt/*.fra]"
            )
    return [path for pair in zip(source, target, strict=True) for path in pair]


def _wildcards(pattern: str, path: Path, columns: Columns) -> list[str]:
    """Return what each wildcard of a pattern matched in a path, without names of columns."""
    fixed = map(re.escape, re.split(r"\*+|\?|\[.+?\]", pattern))
    found = re.fullmatch("(.*)".join(fixed), str(path))
    names = rf"(?<![a-z])({'|'.join(map(re.escape, columns))})(?![a-z])"
    matched = found.groups() if found else ()
    return [re.sub(names, "", each, flags=re.IGNORECASE) for each in matched]


def _find_one(name: str, base: Path, columns: tuple[str, str]) -> list[Path]:
    path = base / Path(name).expanduser()
    if path.is_file():
        return [path]
    if glob.has_magic(name):
        found = sorted(Path(match) for match in glob.glob(str(path)))
        if found:
            return found
        raise DataError(f"no file matches {path}: correct the pattern or data.path")
    for suffix in TABLES:
        for packed in PACKINGS:
            if found := _with_ending(path, suffix + packed):
                return found
    for packed in PACKINGS:
        endings = [f".{column}{packed}" for column in columns]
        source, target = (_with_ending(path, ending) for ending in endings)
        if source and target:
            shards = [f"{glob.escape(str(path))}-*{ending}" for ending in endings]
            return _side_by_side(name, shards, columns, source, target)
    there = "does not exist"
    if path.parent.is_dir():
        there = f"holds {_listed(sorted(entry.name for entry in path.parent.iterdir()))}"
    raise DataError(
        f"no corpus file {path} (nor {path.name}.parquet, .tsv, .jsonl, .{columns[0]} + "
        f".{columns[1]}, packed with gzip or zstd or not); the folder {path.parent} {there}. "
        "Name the folder of the corpus, data.path=FOLDER, or its files"
    )


def _with_ending(stem: Path, ending: str) -> list[Path]:
    """Return the file of a stem with this ending; if there is none, its shards `STEM-*ENDING`."""
    file = stem.with_name(stem.name + ending)
    shards = f"{glob.escape(stem.name)}-*{ending}"
    return [file] if file.is_file() else sorted(stem.parent.glob(shards))


def _listed(names: Iterable[str], most: int = 8) -> str:
    names = list(names)
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{', '.join(names[:most]) or 'nothing'}{more}"


Where = Mapping[str, Collection[str]]


def read_pairs(
    files: Sequence[Path],
    columns: tuple[str, str],
    where: Where = MappingProxyType({}),
    rows: Range | None = None,
) -> Iterator[Pair]:
    """Yield (source, target) in file order, spaces at the ends removed.

    Args:
        files: as `find_files` returned them.
        columns: names of the two columns; two numbers for TSV without a header.
        where: for other columns of a table, the values of the rows to read; empty = all rows.
        rows: range to read, if there is one file or one pair of files; None = all.

    Raises:
        DataError: a file is unreadable; names the file, the line and the fault.
    """
    if kind_of(files[0]) == "text":
        for source, target in zip(files[0::2], files[1::2], strict=True):
            yield from _read_text(source, target, rows)
        return
    # Each yields two columns of text, then those of `where`, whose numbers become text.
    readers = {"parquet": _read_parquet, "tsv": _read_tsv, "jsonl": _read_jsonl}
    for path in files:
        read = readers[kind_of(path)]
        for source_text, target_text, *others in read(path, (*columns, *where), rows):
            if any(value not in where[name] for name, value in zip(where, others, strict=True)):
                continue
            yield source_text.strip(), target_text.strip()


def _lines(path: Path, rows: Range | None, file: int = 0) -> Iterator[tuple[int, str]]:
    """Yield lines with their numbers from 1 on; `file` is the file's index in `rows.starts`."""
    if rows is None:
        return enumerate(lines_of(path), 1)
    lines = islice(lines_of(path, rows.first, rows.starts[file]), rows.last - rows.first)
    return enumerate(lines, rows.first + 1)


def kind_of(path: Path) -> str:
    """Return parquet, tsv, jsonl or text, by the suffix of a file that may be compressed."""
    packed = path.suffix in PACKED
    return TABLES.get(path.with_suffix("").suffix if packed else path.suffix, "text")


def _read_text(source: Path, target: Path, rows: Range | None) -> Iterator[Pair]:
    lines = [_lines(path, rows, file) for file, path in enumerate((source, target))]
    for left, right in zip_longest(*lines):
        if left is None or right is None:
            counts = [sum(1 for _ in lines_of(path)) for path in (source, target)]
            raise DataError(
                f"{source} has {counts[0]} lines but {target} has {counts[1]}: line n of one file "
                "must translate line n of the other"
            )
        yield left[1].strip(), right[1].strip()


def are_numbers(columns: Columns) -> bool:
    """Tell whether the columns of a TSV are given by number; then the file has no header."""
    return all(column.isdecimal() for column in columns)


def _read_tsv(path: Path, columns: Columns, rows: Range | None) -> Iterator[tuple[str, ...]]:
    lines = _lines(path, rows)
    if are_numbers(columns):
        places, most = [int(column) for column in columns], None
    else:
        first = next(lines if rows is None else _lines(path, None), None)
        if first is None:
            raise DataError(f"{path} is empty: its first line should name the columns")
        header = first[1].split("\t")
        _check_columns(columns, header, f"{path}")
        places, most = [header.index(column) for column in columns], len(header)
    for number, line in lines:
        if not line:
            continue  # some programs end a file with one
        fields = line.split("\t")
        if max(places) >= len(fields):
            raise DataError(
                f"{path}, line {number}: {len(fields)} column(s) where at least "
                f"{max(places) + 1} are needed; columns are separated by tabs"
            )
        if most and any(fields[most:]):
            raise DataError(
                f"{path}, line {number}: {len(fields)} columns, but line 1 names {most}. Is there "
                "a tab in a text? Then replace it by a space"
            )
        yield tuple(fields[place] for place in places)


def _read_jsonl(path: Path, columns: Columns, rows: Range | None) -> Iterator[tuple[str, ...]]:
    for number, line in _lines(path, rows):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (json.JSONDecodeError, RecursionError) as error:
            raise DataError(f"{path}, line {number}: not JSON ({error})") from error
        if isinstance(row, dict) and isinstance(row.get("translation"), dict):
            row |= row["translation"]  # as in translation data sets of the hub
        if not isinstance(row, dict):
            raise DataError(f"{path}, line {number}: not an object with named texts: {line[:60]}")
        _check_columns(columns, list(row), f"{path}, line {number}")
        for column in columns[:2]:
            text = row[column]  # half a surrogate pair is not text, since UTF-8 cannot hold it
            if text is None:
                continue  # an empty text, as in parquet
            if not isinstance(text, str) or text != text.encode("utf-8", "ignore").decode():
                raise DataError(f"{path}, line {number}: {column!r} is not a text: {text!r}")
        yield tuple(_as_text(row[column]) for column in columns)


def _read_parquet(path: Path, columns: Columns, rows: Range | None) -> Iterator[tuple[str, ...]]:
    try:
        file = pyarrow.parquet.ParquetFile(path)
        places = find_columns(file.schema_arrow, columns, f"{path}")
        rows = rows or Range(0, file.metadata.num_rows)
        groups, row = row_groups(file, rows)  # number of the next batch's first row
        for batch in file.iter_batches(columns=places, row_groups=groups):
            first, last = max(rows.first - row, 0), max(rows.last - row, 0)
            yield from arrow_rows(pyarrow.table(batch[first:last]), places, columns, f"{path}")
            row += len(batch)
            if row >= rows.last:
                break
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} is not a readable parquet file: {error}") from error


def find_columns(schema: pyarrow.Schema, columns: Columns, name: str) -> list[str]:
    """Find columns of an Arrow table, inside structs, too: `translation.en`, or just `en`.

    Returns:
        Their full names.

    Raises:
        DataError: a column is missing; names the columns of the table.
    """
    found = {column: column for column in _flat(schema.empty_table()).column_names}
    for column in list(found):
        found.setdefault(column.removeprefix("translation."), column)
    _check_columns(columns, list(found), name)
    return [found[column] for column in columns]


def _flat(table: pyarrow.Table) -> pyarrow.Table:
    """Return a table with a column `a.b` for each field of a struct, at any depth."""
    while any(map(pyarrow.types.is_struct, table.schema.types)):
        table = table.flatten()
    return table


def arrow_rows(
    table: pyarrow.Table, places: list[str], columns: Columns, name: str
) -> Iterator[tuple[str, ...]]:
    """Yield rows of an Arrow table, two columns of text first; errors call the table `name`."""
    cells = _flat(table).select(places).columns
    sides = [_arrow_texts(cells[side], name, columns[side]) for side in (0, 1)]
    others = [list(map(_as_text, own.to_pylist())) for own in cells[2:]]
    return zip(*sides, *others, strict=True)


def _arrow_texts(cells: pyarrow.Array, name: str, column: str) -> list[str]:
    """Return a column's texts, "" for missing ones; many times faster than reading row by row."""
    try:
        values = cells.to_pylist()
    except UnicodeDecodeError as error:
        values = [error.object]
    if not set(map(type, values)) <= {str, type(None)}:
        wrong = next(value for value in values if not isinstance(value, str | None))
        raise DataError(
            f"{name}: column {column!r} holds no text, but {wrong!r}. Name a column of UTF-8 text "
            "(data.source_column, data.target_column), or convert this one"
        )
    return [value or "" for value in values]


def _as_text(value: object) -> str:
    """Return a value that rows are chosen by as text, like the settings: 2019 -> "2019"."""
    return "" if value is None else str(value)


def _check_columns(columns: Columns, found: list[str], place: str) -> None:
    for column in columns:
        if column not in found:
            is_text = column in columns[:2]
            settings = "data.source_column and data.target_column" if is_text else "data.where"
            advice = f"Set {settings} (numbers 0, 1, ... for TSV without header)"
            if any("\r" in name for name in found):
                advice = "Its lines end with carriage returns: end them with line feeds"
            names = _listed(repr(name[:60]) for name in found)
            raise DataError(f"{place} has no column {column!r}; it has: {names}. {advice}")
