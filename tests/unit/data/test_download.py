"""Files are downloaded once and whole, from servers that break off, forget or refuse."""

from __future__ import annotations

import hashlib
import socket
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from random import Random
from typing import ClassVar

import pytest

from seq2seq.data import download
from seq2seq.data.download import fetch
from seq2seq.errors import DataError

CONTENT = Random(0).randbytes(300_000)


class Server(BaseHTTPRequestHandler):
    """Serves CONTENT under every name; its folder says how: `/cut/a.gz` breaks off once."""

    seen: ClassVar[list[str]] = []

    def log_message(self, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        way, first = self.path.split("/")[1], self.path not in self.seen
        self.seen.append(self.path)
        if way == "moved":
            self.send_response(302)
            self.send_header("Location", "ftp://127.0.0.1/a.gz" if first else "/good/a.gz")
            self.end_headers()
            return
        if way == "missing" or (way == "busy" and first):
            self.send_error(404 if way == "missing" else 503)
            return
        self.send_response(200)
        if way != "unsized":
            self.send_header("Content-Length", str(len(CONTENT)))
        self.end_headers()
        if way == "slow":
            threading.Event().wait(0.5)
        broken = way == "never" or (way == "cut" and first)
        self.wfile.write(CONTENT[: len(CONTENT) // 2] if broken else CONTENT)


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setattr(download, "SCHEMES", ("http",))
    monkeypatch.setattr(time, "sleep", lambda _: None)
    monkeypatch.setattr(Server, "seen", [])
    http = ThreadingHTTPServer(("127.0.0.1", 0), Server)
    threading.Thread(target=http.serve_forever, args=(0.01,), daemon=True).start()
    yield f"http://127.0.0.1:{http.server_address[1]}"
    http.shutdown()
    http.server_close()


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name != ".lock")


def test_each_file_is_downloaded_once(server, tmp_path):
    urls = [f"{server}/good/a.gz", f"{server}/good/b%20c.gz?raw=true"]
    folder = tmp_path / "new" / "folder"
    assert fetch(urls, folder) == folder
    assert names(folder) == ["a.gz", "b c.gz"]
    assert (folder / "a.gz").read_bytes() == (folder / "b c.gz").read_bytes() == CONTENT
    fetch(urls, folder)
    assert len(Server.seen) == 2


@pytest.mark.parametrize("way", ["cut", "busy", "unsized"])
def test_a_download_that_fails_once_is_tried_again(server, tmp_path, way):
    fetch([f"{server}/{way}/a.gz"], tmp_path)
    assert (tmp_path / "a.gz").read_bytes() == CONTENT
    assert names(tmp_path) == ["a.gz"]


def test_what_breaks_off_each_time_leaves_nothing(server, tmp_path):
    with pytest.raises(DataError, match=r"cannot download \S*/never/a\.gz: .*Try again later"):
        fetch([f"{server}/never/a.gz"], tmp_path)
    assert len(Server.seen) == 1 + download.RETRIES
    assert names(tmp_path) == []


def test_a_file_with_its_checksum_is_taken_and_any_other_is_not(server, tmp_path):
    right = hashlib.sha256(CONTENT).hexdigest()
    fetch([f"{server}/good/a.gz#sha256={right}"], tmp_path)
    assert (tmp_path / "a.gz").read_bytes() == CONTENT
    with pytest.raises(DataError, match=rf"cannot download \S*b\.gz.*{right}.*its checksum"):
        fetch([f"{server}/good/b.gz#sha256={'0' * 64}"], tmp_path)
    assert names(tmp_path) == ["a.gz"]


def test_a_file_that_is_there_is_compared_with_its_checksum(server, tmp_path):
    right = hashlib.sha256(CONTENT).hexdigest()
    (tmp_path / "a.gz").write_bytes(b"another file")
    fetch([f"{server}/good/a.gz#sha256={right}"], tmp_path)
    assert (tmp_path / "a.gz").read_bytes() == CONTENT
    with pytest.raises(DataError, match=r"cannot download \S*a\.gz.*its checksum"):
        fetch([f"{server}/good/a.gz#sha256={'0' * 64}"], tmp_path)


def test_redirects_to_other_schemes_are_refused(server, tmp_path):
    with pytest.raises(DataError, match=r"/moved/a\.gz redirects to ftp://\S+, which is not https"):
        fetch([f"{server}/moved/a.gz"], tmp_path)
    assert names(tmp_path) == []
    fetch([f"{server}/moved/a.gz"], tmp_path)
    assert (tmp_path / "a.gz").read_bytes() == CONTENT


def test_a_missing_file_is_named_at_once(server, tmp_path):
    with pytest.raises(DataError, match=r"download \S*/missing/a\.gz: .*404.*data\.path=FOLDER"):
        fetch([f"{server}/missing/a.gz"], tmp_path)


def test_a_server_out_of_reach_is_named(server, tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(DataError, match=rf"{port}/a\.gz: .*refused.*data\.path=FOLDER"):
        fetch([f"http://127.0.0.1:{port}/a.gz"], tmp_path)


def test_a_server_that_says_nothing_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr(download, "TIMEOUT_SECONDS", 0.1)
    monkeypatch.setattr(download, "SCHEMES", ("http",))
    monkeypatch.setattr(download, "RETRIES", 0)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/a.gz"
        with pytest.raises(DataError, match="timed out"):
            fetch([url], tmp_path)


@pytest.mark.parametrize(
    "url",
    ["file:///etc/hosts", "http://host/a.gz", "train.en.gz", "https://host/folder/",
     "https://host/%2e%2e", "https://host/a.gz#sha256=abc", "https://host/a.gz#x", ""],
)
def test_what_is_no_address_of_a_file_is_refused(url, tmp_path):
    with pytest.raises(DataError, match=r"data\.urls: .* is not an address of a file"):
        fetch([url], tmp_path)


def test_two_files_of_one_name_are_refused(tmp_path):
    with pytest.raises(DataError, match=r"both be called a\.gz"):
        fetch(["https://one/a.gz", "https://two/a.gz"], tmp_path)


def test_a_folder_that_cannot_be_made_is_named(server, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(DataError, match=r"cannot write the download into \S*file.*data\.cache"):
        fetch([f"{server}/good/a.gz"], tmp_path / "file")


def test_processes_that_want_the_same_file_download_it_once(server, tmp_path):
    code = "import sys; from pathlib import Path; from seq2seq.data.download import fetch\n"
    code += "from seq2seq.data import download; download.SCHEMES = ('http',)\n"
    code += "fetch([sys.argv[1]], Path(sys.argv[2]))"
    command = [sys.executable, "-c", code, f"{server}/slow/a.gz", str(tmp_path)]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=-2) for _ in range(2)]
    for process in both:
        output, _ = process.communicate(timeout=60)
        assert process.returncode == 0, output
        assert not output  # no bars where there is no terminal
    assert len(Server.seen) == 1
    assert (tmp_path / "a.gz").read_bytes() == CONTENT
