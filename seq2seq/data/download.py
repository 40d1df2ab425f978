"""Files that are fetched once: those of `data.urls`, and test sets that sacrebleu knows by name."""

from __future__ import annotations

import logging
import re
import socket
import sys
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urljoin, urlsplit

import pooch
from requests import Response
from requests.exceptions import RequestException

from seq2seq.errors import DataError, nearest
from seq2seq.files import lock

log = logging.getLogger(__name__)

SCHEMES = ("https",)
RETRIES = 2
TIMEOUT_SECONDS = 30.0  # without an answer
CHUNK = 1 << 16  # bytes
ANSWER_SECONDS = 15.0  # as long sacrebleu waits; by itself, it would wait for ever
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
    download = pooch.HTTPDownloader(
        progressbar=sys.stderr.isatty(),
        chunk_size=CHUNK,
        timeout=TIMEOUT_SECONDS,
        hooks={"response": _refuse_redirect},
    )
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
                url = files.urls[name]
                files.fetch(name, downloader=download)
    except (RequestException, ValueError) as error:  # ValueError: another checksum
        raise DataError(
            f"cannot download {url}: {error}. Try again later, correct the address or its "
            "checksum, or download the files by hand and name their folder: data.path=FOLDER"
        ) from error
    except OSError as error:
        raise DataError(
            f"cannot write the download into {folder}: {error}. Choose another folder, data.cache="
        ) from error
    return folder


def _refuse_redirect(response: Response, **_: Any) -> None:
    """Refuse a redirect to an address that is not https, before it is followed."""
    there = urljoin(response.url, response.headers.get("Location", ""))
    if urlsplit(there).scheme not in SCHEMES:
        raise DataError(
            f"data.urls: {response.url} redirects to {there}, which is not https: give another "
            "address, or download the file by hand and name its folder: data.path=FOLDER"
        )


def sacrebleu_files(name: object, languages: tuple[str, str]) -> tuple[Path, Path]:
    """Return the files of source and reference lines of a test set.

    Raises:
        DataError: sacrebleu does not know the set for these languages, or cannot fetch it.
    """
    from sacrebleu import DATASETS
    from sacrebleu.utils import SACREBLEU_DIR

    name, pair = str(name), "-".join(languages)
    known = [known for known, dataset in DATASETS.items() if pair in dataset.langpairs]
    if name not in known:
        raise DataError(
            f"sacrebleu has no test set {name} of {pair}, the languages of data.source_column "
            f"and data.target_column: {nearest(name, known or DATASETS)}"
        )
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(ANSWER_SECONDS)
    try:
        # All sets begin with these two fields.
        source, reference, *_ = DATASETS[name].get_files(pair)  # type: ignore[no-untyped-call]
        return Path(source), Path(reference)
    except (Exception, SystemExit) as error:  # from many libraries; exit: a wrong checksum
        raise DataError(
            f"the test set {name} of sacrebleu cannot be fetched ({type(error).__name__}: {error})."
            f" Where there is a network, run sacrebleu -t {name} -l {pair} --echo src and copy its "
            f"folder to {SACREBLEU_DIR}; or give files of your own, data=files "
            "data.test=[source.txt,reference.txt]"
        ) from error
    finally:
        socket.setdefaulttimeout(before)
