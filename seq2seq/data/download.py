"""Download the files of a corpus once, and compare them with their checksums."""

from __future__ import annotations

import logging
import re
import sys
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urljoin, urlsplit

import pooch
from requests import Response
from requests.exceptions import RequestException

from seq2seq.errors import DataError
from seq2seq.files import lock

log = logging.getLogger(__name__)

SCHEMES = ("https",)
RETRIES = 2
TIMEOUT_SECONDS = 30.0  # without an answer
CHUNK = 1 << 16  # bytes
CHECKSUM = re.compile("sha256=([0-9a-f]{64})")


def fetch(urls: list[str], folder: Path) -> Path:
    """Download each file into `folder` unless it is there; return the folder.

    A URL may end in `#sha256=...`: then only a file with this checksum is accepted, and a file that
    is there with another one is downloaded again. If several processes ask for the same folder, one
    downloads and the others wait.

    Raises:
        DataError: a file cannot be downloaded, or is not the right one; names the address and the
            remedy.
    """
    pooch.get_logger().setLevel(logging.WARNING)
    files = pooch.create(path=folder, base_url="", retry_if_failed=RETRIES)
    for given in urls:
        url, _, said = given.partition("#")
        name = Path(unquote(urlsplit(url).path.rpartition("/")[2])).name
        checksum = CHECKSUM.fullmatch(said)
        if urlsplit(url).scheme not in SCHEMES or name in ("", "..") or (said and not checksum):
            raise DataError(
                f"data.urls: {given!r} is not an address of a file: give https://HOST/PATH/NAME, "
                "or https://HOST/PATH/NAME#sha256=CHECKSUM"
            )
        if files.urls.setdefault(name, url) != url:
            raise DataError(f"data.urls: {files.urls[name]} and {url} would both be called {name}")
        files.registry[name] = checksum and f"sha256:{checksum[1]}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with lock(folder / ".lock", lambda: log.info("waiting for a download into %s", folder)):
            for name in files.registry:
                _fetch_one(files, name)
    except OSError as error:
        raise DataError(
            f"cannot write the download into {folder}: {error}. Choose another folder, data.cache="
        ) from error
    return folder


def _fetch_one(files: pooch.Pooch, name: str) -> None:
    download = pooch.HTTPDownloader(
        progressbar=sys.stderr.isatty(),
        chunk_size=CHUNK,
        timeout=TIMEOUT_SECONDS,
        hooks={"response": _refuse_redirect},
    )
    by_hand = "or download the files by hand and name their folder: data.path=FOLDER"
    try:
        files.fetch(name, downloader=download)
    except RequestException as error:
        raise DataError(
            f"cannot download {files.urls[name]}: {error}. Try again later, {by_hand}"
        ) from error
    except ValueError as error:  # pooch raises it if checksums differ
        raise DataError(
            f"{files.urls[name]} is not the file that data.urls means: {error}. Correct the "
            f"address or its checksum, {by_hand}"
        ) from error


def _refuse_redirect(response: Response, **_: Any) -> None:
    """Refuse a redirect to an address that is not https, before it is followed."""
    there = urljoin(response.url, response.headers.get("Location", ""))
    if urlsplit(there).scheme not in SCHEMES:
        raise DataError(
            f"data.urls: {response.url} redirects to {there}, which is not https: give another "
            "address, or download the file by hand and name its folder: data.path=FOLDER"
        )
