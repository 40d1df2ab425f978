"""Files that a corpus is downloaded from, fetched once."""

from __future__ import annotations

import http.client
import logging
import ssl
import time
import urllib.error
import urllib.request
from pathlib import Path
from urllib.parse import unquote, urlsplit

from tqdm.auto import tqdm

from seq2seq.errors import DataError
from seq2seq.files import alone

log = logging.getLogger(__name__)

TRIES = 3
PAUSE = 1.0  # seconds before the second try; twice as long before each further one
PATIENCE = 30.0  # seconds without an answer
CHUNK = 1 << 16  # bytes
NETWORK = (
    *(urllib.error.URLError, http.client.HTTPException, ssl.SSLError),
    *(ConnectionError, TimeoutError),
)


def fetch(urls: list[str], folder: Path) -> Path:
    """Download each file into `folder` unless it is there; returns the folder.

    What an interrupted download left (`NAME.partial`) is gone on with. Processes that ask for the
    same folder wait for the first of them.

    Raises:
        DataError: a file cannot be had; names the address and the way round.
    """
    named: dict[str, str] = {}
    for url in urls:
        name = Path(unquote(urlsplit(url).path.rpartition("/")[2])).name
        if urlsplit(url).scheme not in ("http", "https") or name in ("", ".."):
            raise DataError(
                f"data.urls: {url!r} is no address of a file: give https://HOST/PATH/NAME"
            )
        if named.setdefault(name, url) != url:
            raise DataError(f"data.urls: {named[name]} and {url} would both be called {name}")

    def waiting() -> None:
        log.info("Another process downloads into %s: waiting for it", folder)

    try:
        folder.mkdir(parents=True, exist_ok=True)
        with alone(folder / ".lock", waiting):
            for name, url in named.items():
                if not (folder / name).is_file():
                    _fetch_one(url, folder / name)
    except OSError as error:
        raise DataError(
            f"cannot write the download into {folder}: {error}. Choose another folder, data.cache="
        ) from error
    return folder


def _fetch_one(url: str, target: Path) -> None:
    partial = target.with_name(target.name + ".partial")
    reason = ""
    for attempt in range(TRIES):
        if attempt:
            time.sleep(PAUSE * 2 ** (attempt - 1))
        try:
            if _transfer(url, partial):
                partial.replace(target)
                _version(partial).unlink(missing_ok=True)
                return
            reason = "the connection broke off"
        except urllib.error.HTTPError as error:
            reason = f"the server says {error.code} {error.reason}"
            if error.code == 416:  # what is there is no beginning of the file
                partial.unlink(missing_ok=True)
            elif error.code < 500 and error.code not in (408, 429):
                break
        except NETWORK as error:
            reason = str(getattr(error, "reason", None) or error) or type(error).__name__
    raise DataError(
        f"cannot download {url}: {reason}. Try again later, which goes on from what is there, or "
        "download the files by hand and name their folder: data.path=FOLDER"
    )


def _transfer(url: str, partial: Path) -> bool:
    """Add to `partial` what is missing; whether it is whole now."""
    have = partial.stat().st_size if partial.is_file() else 0
    version = _version(partial)
    request = urllib.request.Request(url, headers={"User-Agent": "seq2seq"})
    if have and version.is_file():
        # A file that has changed since comes whole.
        request.add_header("Range", f"bytes={have}-")
        request.add_header("If-Range", version.read_text(encoding="latin1"))
    with urllib.request.urlopen(request, timeout=PATIENCE) as response:
        if response.status != 206:
            have = 0
        length = response.headers["Content-Length"]
        total = have + int(length) if length else None
        version.unlink(missing_ok=True)
        mark = response.headers["ETag"] or response.headers["Last-Modified"]
        if mark and not mark.startswith("W/"):  # a weak one does not tell bytes apart
            version.write_text(mark, encoding="latin1")
        bar = tqdm(
            desc=partial.stem, total=total, initial=have, unit="B", unit_scale=True, disable=None
        )
        with bar, partial.open("ab" if have else "wb") as file:
            while chunk := response.read(CHUNK):
                file.write(chunk)
                bar.update(len(chunk))
    return total is None or partial.stat().st_size == total


def _version(partial: Path) -> Path:
    """Where the server's mark of the version stands that `partial` is the beginning of."""
    return partial.with_name(partial.name + ".version")
