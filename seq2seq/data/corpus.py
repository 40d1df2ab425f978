"""Parallel text from files: parquet, TSV, JSON lines, or two plain text files; gzip too.

`load_pairs` reads a split; `find_files` turns a setting such as `data.val=val` into files, and
`read_pairs` reads those.
Nothing else in the project opens a corpus.
"""

from __future__ import annotations

import glob
import gzip
import json
import zlib
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import IO

import pyarrow
import pyarrow.parquet

from seq2seq.config import DataConfig
from seq2seq.errors import DataError

TABLES = (".parquet", ".tsv", ".jsonl", ".json")
Pair = tuple[str, str]


def load_pairs(config: DataConfig, split: str) -> list[Pair]:
    """All pairs of a split (`train`, `val` or `test`), as they stand in the files.

    Raises:
        DataError: files are missing or unreadable.
    """
    spec = getattr(config, split)
    if spec is None:
        raise DataError(
            f"data={config.name} names no {split} files: give data.{split}=FILE "
            "(parquet, TSV, JSON lines, or [source.txt,target.txt])"
        )
    if config.path and config.origin and not Path(config.path).expanduser().is_dir():
        raise DataError(
            f"data={config.name} is not in {config.path}: get it ({config.origin}) and name its "
            "folder, data.path=FOLDER"
        )
    columns = (config.source_column, config.target_column)
    return list(read_pairs(find_files(spec, config.path, columns), columns))


def find_files(spec: object, folder: str | None, columns: tuple[str, str]) -> list[Path]:
    """Files that a `data.train`-like setting means, in a stable order.

    Args:
        spec: a path, a glob, the stem of files in `folder`, or a list of these. Plain text
            comes as two files, source then target (`[train.en, train.fr]`); the stem finds them
            by the column names (`train.en`, `train.fr`).
        folder: where relative names are looked up; None = the current folder.

    Raises:
        DataError: nothing is there; says where it looked and what is there instead.
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
    files = [path for item in specs for path in _find_one(str(item), base, columns)]
    text = [path for path in files if _kind(path) == "text"]
    if text and (len(text) != len(files) or len(files) % 2):
        raise DataError(
            f"plain text needs two files, source then target, but {spec!r} means "
            f"{', '.join(str(path) for path in files)}: give a list such as [train.en,train.fr]"
        )
    return files


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
        for ending in (suffix,) if suffix == ".parquet" else (suffix, suffix + ".gz"):
            shards = sorted(path.parent.glob(f"{path.name}-*{ending}"))
            single = path.with_name(path.name + ending)
            if single.is_file() or shards:
                return [single] if single.is_file() else shards
    for ending in ("", ".gz"):
        pair = [path.with_name(f"{path.name}.{column}{ending}") for column in columns]
        if all(side.is_file() for side in pair):
            return pair
    raise DataError(
        f"no corpus file {path} (nor {path.name}.parquet, .tsv, .jsonl, "
        f".{columns[0]} + .{columns[1]}, gzip or not); {_contents(path.parent)}"
    )


def _contents(folder: Path, most: int = 8) -> str:
    if not folder.is_dir():
        return f"the folder {folder} does not exist"
    names = sorted(entry.name for entry in folder.iterdir())
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{folder} holds {', '.join(names[:most]) or 'nothing'}{more}"


def read_pairs(files: list[Path], columns: tuple[str, str]) -> Iterator[Pair]:
    """Yield (source, target) in file order, spaces at the ends removed, nothing left out.

    Args:
        files: what `find_files` gave.
        columns: names of the two columns; two numbers for TSV without a header.

    Raises:
        DataError: a file is unreadable; names the file, the line and the fault.
    """
    if _kind(files[0]) == "text":
        for source, target in zip(files[0::2], files[1::2], strict=True):
            yield from _read_text(source, target)
        return
    readers = {"parquet": _read_parquet, "tsv": _read_tsv, "jsonl": _read_jsonl}
    for path in files:
        for source_text, target_text in readers[_kind(path)](path, columns):
            yield source_text.strip(), target_text.strip()


def _kind(path: Path) -> str:
    suffix = path.with_suffix("").suffix if path.suffix == ".gz" else path.suffix
    kinds = {".parquet": "parquet", ".tsv": "tsv", ".jsonl": "jsonl", ".json": "jsonl"}
    return kinds.get(suffix, "text")


def _lines(path: Path) -> Iterator[str]:
    """Lines of a UTF-8 file without their ends; a byte order mark is dropped."""
    number = 0
    try:
        with _open(path) as file:
            for number, raw in enumerate(file, 1):
                line = raw.decode("utf-8-sig" if number == 1 else "utf-8")
                yield line.rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path}, line {number}: not UTF-8 text ({error.reason} at byte {error.start} of the "
            "line). Convert the file, for example: iconv -f latin1 -t utf-8"
        ) from error
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"cannot read {path} after line {number}: {error}") from error


def _open(path: Path) -> IO[bytes]:
    if path.suffix == ".gz":
        return gzip.open(path, "rb")  # type: ignore[return-value]  # GzipFile reads like IO[bytes]
    return path.open("rb")


def _read_text(source: Path, target: Path) -> Iterator[Pair]:
    source_lines, target_lines = _lines(source), _lines(target)
    for number, (left, right) in enumerate(zip_longest(source_lines, target_lines), 1):
        if left is None or right is None:
            shorter, longer, rest = (
                (source, target, target_lines) if left is None else (target, source, source_lines)
            )
            total = number + sum(1 for _ in rest)
            raise DataError(
                f"{shorter} has {number - 1} lines but {longer} has {total}: line n of one file "
                "must translate line n of the other"
            )
        yield left.strip(), right.strip()


def _read_tsv(path: Path, columns: tuple[str, str]) -> Iterator[Pair]:
    lines = enumerate(_lines(path), 1)
    if all(column.isdecimal() for column in columns):
        source, target = (int(column) for column in columns)
    else:
        header = next(lines, (0, ""))[1].split("\t")
        for column in columns:
            _check_column(column, header, path)
        source, target = (header.index(column) for column in columns)
    for number, line in lines:
        fields = line.split("\t")
        if max(source, target) >= len(fields):
            raise DataError(
                f"{path}, line {number}: {len(fields)} column(s) where at least "
                f"{max(source, target) + 1} are needed; columns are separated by tabs"
            )
        yield fields[source], fields[target]


def _read_jsonl(path: Path, columns: tuple[str, str]) -> Iterator[Pair]:
    for number, line in enumerate(_lines(path), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (json.JSONDecodeError, RecursionError) as error:
            raise DataError(f"{path}, line {number}: not JSON ({error})") from error
        if isinstance(row, dict) and isinstance(row.get("translation"), dict):
            row = row["translation"]  # the form of the hub's translation data sets
        if not isinstance(row, dict):
            raise DataError(f"{path}, line {number}: not an object with named texts: {line[:60]}")
        for column in columns:
            _check_column(column, list(row), path, number)
            if not _is_text(row[column]):
                raise DataError(f"{path}, line {number}: {column!r} is no text: {row[column]!r}")
        yield row[columns[0]], row[columns[1]]


def _read_parquet(path: Path, columns: tuple[str, str]) -> Iterator[Pair]:
    try:
        file = pyarrow.parquet.ParquetFile(path)
        names = file.schema_arrow.names
        nested = "translation" in names and not set(columns) & set(names)
        if not nested:
            for column in columns:
                _check_column(column, names, path)
        for batch in file.iter_batches(columns=["translation"] if nested else list(columns)):
            for row in batch.to_pylist():
                row = row["translation"] if nested else row
                source, target = (_parquet_text(row, column, path) for column in columns)
                yield source, target
    except (pyarrow.ArrowException, OSError) as error:
        raise DataError(f"{path} is not a readable parquet file: {error}") from error


def _parquet_text(row: dict[str, object], column: str, path: Path) -> str:
    _check_column(column, list(row), path)
    text = row[column]
    if text is None:
        return ""
    if not _is_text(text):
        raise DataError(f"{path}: column {column!r} holds no text, but for example {text!r}")
    return str(text)


def _is_text(value: object) -> bool:
    """Whether it is a string that UTF-8 can hold; half a surrogate pair of JSON is none."""
    return isinstance(value, str) and value == value.encode("utf-8", "ignore").decode()


def _check_column(column: str, found: list[str], path: Path, line: int | None = None) -> None:
    if column not in found:
        where = f"{path}, line {line}" if line else f"{path}"
        raise DataError(
            f"{where} has no column {column!r}; it has: {', '.join(map(repr, found))}. Set "
            "data.source_column and data.target_column (numbers 0, 1, ... for TSV without header)"
        )
