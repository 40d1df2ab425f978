"""A copy of prepared data in S3, GCS or any other store that fsspec supports, for machines without
a shared disk: each writes to its own cache and to the store, and fetches what others wrote."""

from __future__ import annotations

import errno
import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fsspec
from fsspec.asyn import AsyncFileSystem

from seq2seq.data.manifest import File, is_whole
from seq2seq.errors import DataError
from seq2seq.files import atomic_write

for library in map(logging.getLogger, ("botocore", "aiobotocore")):
    if not library.level:  # no messages about where S3's settings come from
        library.setLevel(logging.WARNING)


@dataclass(frozen=True)
class Store:
    """A store that holds files of a cache under the same names.

    Its methods raise a `DataError` if the store cannot be used.

    Attributes:
        cache: folder of this machine.
        url: of the folder in the store; None = machines share the cache, and nothing is copied.
    """

    cache: Path
    url: str | None = None

    def put(self, *paths: Path, missing: bool = False) -> None:
        """Copy existing files of the cache to the store, replacing older files there.

        Args:
            paths: of files in the cache; those that do not exist are skipped.
            missing: keep a file of the store that has the same size.
        """
        for path in filter(Path.exists, paths) if self.url else ():
            with self._place(path) as (files, there):
                if missing and files.exists(there) and files.size(there) == path.stat().st_size:
                    continue
                if not isinstance(files, AsyncFileSystem):  # S3 and the like have no folders,
                    files.makedirs(there.rpartition("/")[0], exist_ok=True)  # and make a bucket
                files.put_file(str(path), there)

    def has(self, path: Path) -> bool:
        """Tell whether the store has a file; True if there is no store."""
        if not self.url:
            return True
        with self._place(path) as (files, there):
            return bool(files.exists(there))

    def get(self, *paths: Path) -> None:
        """Fetch files that the cache lacks, if the store has them."""
        for path in paths if self.url else ():
            path.parent.mkdir(parents=True, exist_ok=True)
            with self._place(path) as (files, there):
                if not path.exists() and files.exists(there):
                    with atomic_write(path) as file:
                        files.get_file(there, file.name)

    def get_written(self, folder: Path, files: Iterable[File]) -> None:
        """Fetch the files that others wrote to a folder, unless exactly these files are here.

        An older preparation may have left other files under the same names.

        Raises:
            DataError: the store has another file than was written.
        """
        for file in files if self.url else ():
            path = folder / file["file"]
            if not is_whole(folder, file, verify=True):
                path.unlink(missing_ok=True)
                self.get(path)
                if path.exists() and not is_whole(folder, file, verify=True):
                    path.unlink()
                    raise DataError(
                        f"{self.url}/{path.relative_to(self.cache).as_posix()} is damaged: remove "
                        "it there, and start again, which makes it anew"
                    )

    def remove(self, *paths: Path) -> None:
        """Remove files, here and in the store."""
        for path in paths:
            path.unlink(missing_ok=True)
        for path in paths if self.url else ():
            with self._place(path) as (files, there):
                if files.exists(there):
                    files.rm_file(there)

    @contextmanager
    def _place(self, path: Path) -> Iterator[tuple[Any, str]]:
        try:
            files, folder = fsspec.core.url_to_fs(self.url)
            yield files, f"{folder}/{path.relative_to(self.cache).as_posix()}"
        except Exception as error:  # from any library below fsspec
            if isinstance(error, OSError) and error.errno == errno.ENOSPC:
                raise  # the disk of this machine is full
            raise DataError(
                f"data.store={self.url} cannot be used ({type(error).__name__}: {error}). Correct "
                "it, log in, or install what fsspec needs for it, such as s3fs or gcsfs"
            ) from error
