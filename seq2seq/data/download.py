"""Files that a corpus is downloaded from, fetched once and compared with their checksums."""

from __future__ import annotations

import logging
import re
import sys
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pooch
from requests.exceptions import RequestException

from seq2seq.errors import DataError
from seq2seq.files import alone

log = logging.getLogger(__name__)

SCHEMES = ("https",)
RETRIES = 2
PATIENCE = 30.0  # seconds without an answer
CHUNK = 1 << 16  # bytes
CHECKSUM = re.compile("sha256=([0-9a-f]{64})")


def fetch(urls: list[str], folder: Path) -> Path:
    """Download each file into `folder` unless it is there; returns the folder.

    A URL may end in `#sha256=...`: then only the file with this checksum is taken. Processes that
    ask for the same folder wait for the first of them.

    Raises:
        DataError: a file cannot be had, or is another one; names the address and the way round.
    """
    files: dict[str, tuple[str, str | None]] = {}
    for given in urls:
        url, _, said = given.partition("#")
        name = Path(unquote(urlsplit(url).path.rpartition("/")[2])).name
        checksum = CHECKSUM.fullmatch(said)
        if urlsplit(url).scheme not in SCHEMES or name in ("", "..") or (said and not checksum):
            raise DataError(
                f"data.urls: {given!r} is no address of a file: give https://HOST/PATH/NAME, or "
                "https://HOST/PATH/NAME#sha256=CHECKSUM"
            )
        file = url, checksum and checksum[1]
        if files.setdefault(name, file) != file:
            raise DataError(f"data.urls: {files[name][0]} and {url} would both be called {name}")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with alone(folder / ".lock", lambda: log.info("waiting for a download into %s", folder)):
            for name, (url, known) in files.items():
                if not (folder / name).is_file():
                    _fetch_one(url, known, folder / name)
    except OSError as error:
        raise DataError(
            f"cannot write the download into {folder}: {error}. Choose another folder, data.cache="
        ) from error
    return folder


def _fetch_one(url: str, checksum: str | None, target: Path) -> None:
    pooch.get_logger().setLevel(logging.WARNING)
    source = pooch.create(
        path=target.parent,
        base_url="",
        registry={target.name: checksum and f"sha256:{checksum}"},
        urls={target.name: url},
        retry_if_failed=RETRIES,
    )
    download = pooch.HTTPDownloader(
        progressbar=sys.stderr.isatty(), chunk_size=CHUNK, timeout=PATIENCE
    )
    by_hand = "or download the files by hand and name their folder: data.path=FOLDER"
    try:
        source.fetch(target.name, downloader=download)
    except RequestException as error:
        raise DataError(f"cannot download {url}: {error}. Try again later, {by_hand}") from error
    except ValueError as error:  # of pooch, when checksums differ
        raise DataError(
            f"{url} is not the file that data.urls means: {error}. Correct the address or its "
            f"checksum, {by_hand}"
        ) from error
    if checksum is None:
        found = pooch.file_hash(str(target))
        log.info("%s has no checksum in data.urls: add #sha256=%s", url, found)
