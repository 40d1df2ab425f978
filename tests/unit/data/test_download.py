"""Files are downloaded once and whole, from servers that break off, forget or refuse."""

from __future__ import annotations

import re
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
    """Serves CONTENT under every name; its last word says how: `/cut/a.gz` breaks off half way."""

    content = CONTENT
    mark = '"one"'
    seen: ClassVar[list[tuple[str, str | None]]] = []
    broken: ClassVar[set[str]] = set()

    def log_message(self, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        way, asked, content = self.path.split("/")[1], self.headers["Range"], self.content
        self.seen.append((self.path, asked))
        if way == "missing":
            self.send_error(404)
            return
        if way == "busy" and self.path not in self.broken:
            self.broken.add(self.path)
            self.send_error(503)
            return
        first = 0
        if asked and way != "plain" and self.headers["If-Range"] == self.mark:
            first = int(re.fullmatch(r"bytes=(\d+)-", asked)[1])
            if first >= len(content):
                self.send_error(416)
                return
        self.send_response(206 if first else 200)
        if first:
            self.send_header("Content-Range", f"bytes {first}-{len(content) - 1}/{len(content)}")
        if way != "unsized":
            self.send_header("Content-Length", str(len(content) - first))
        self.send_header("ETag", self.mark)
        self.end_headers()
        last = len(content)
        if way == "never" or (way in ("cut", "plain") and self.path not in self.broken):
            self.broken.add(self.path)
            last = (first + last) // 2
        if way == "slow":
            time.sleep(0.5)
        self.wfile.write(content[first:last])


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setattr(download, "PAUSE", 0.01)
    monkeypatch.setattr(Server, "seen", [])
    monkeypatch.setattr(Server, "broken", set())
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


def test_a_broken_download_goes_on_where_it_stopped(server, tmp_path):
    fetch([f"{server}/cut/a.gz"], tmp_path)
    assert (tmp_path / "a.gz").read_bytes() == CONTENT
    assert [asked for _, asked in Server.seen] == [None, "bytes=150000-"]
    assert names(tmp_path) == ["a.gz"]


def test_a_server_without_ranges_sends_the_file_again(server, tmp_path):
    fetch([f"{server}/plain/a.gz"], tmp_path)
    assert (tmp_path / "a.gz").read_bytes() == CONTENT


def test_a_file_of_unknown_length_is_taken_as_it_comes(server, tmp_path):
    fetch([f"{server}/unsized/a.gz"], tmp_path)
    assert (tmp_path / "a.gz").read_bytes() == CONTENT


def test_a_busy_server_is_asked_again(server, tmp_path):
    fetch([f"{server}/busy/a.gz"], tmp_path)
    assert (tmp_path / "a.gz").read_bytes() == CONTENT


def test_what_is_left_of_an_earlier_try_is_used(server, tmp_path):
    with pytest.raises(DataError, match=r"never/a\.gz: the connection broke off\..*goes on"):
        fetch([f"{server}/never/a.gz"], tmp_path)
    assert len(Server.seen) == download.TRIES
    assert names(tmp_path) == ["a.gz.partial", "a.gz.partial.version"]
    fetch([f"{server}/good/a.gz"], tmp_path)
    assert Server.seen[-1][1] == "bytes=262500-"  # half, half of the rest, half of that
    assert (tmp_path / "a.gz").read_bytes() == CONTENT
    assert names(tmp_path) == ["a.gz"]


def test_a_file_that_changed_meanwhile_is_not_glued_together(server, tmp_path, monkeypatch):
    with pytest.raises(DataError):
        fetch([f"{server}/never/a.gz"], tmp_path)
    other = Random(1).randbytes(len(CONTENT))
    monkeypatch.setattr(Server, "content", other)
    monkeypatch.setattr(Server, "mark", '"two"')
    fetch([f"{server}/good/a.gz"], tmp_path)
    assert (tmp_path / "a.gz").read_bytes() == other


def test_a_partial_file_of_unknown_version_is_not_trusted(server, tmp_path):
    (tmp_path / "a.gz.partial").write_bytes(b"something else")
    fetch([f"{server}/good/a.gz"], tmp_path)
    assert (tmp_path / "a.gz").read_bytes() == CONTENT


def test_a_whole_file_that_was_not_renamed_does_no_harm(server, tmp_path):
    (tmp_path / "a.gz.partial").write_bytes(CONTENT)
    (tmp_path / "a.gz.partial.version").write_text(Server.mark)
    fetch([f"{server}/good/a.gz"], tmp_path)
    assert (tmp_path / "a.gz").read_bytes() == CONTENT


def test_a_missing_file_is_named_at_once(server, tmp_path):
    with pytest.raises(DataError, match=r"download \S*/missing/a\.gz: .*404.*data\.path=FOLDER"):
        fetch([f"{server}/missing/a.gz"], tmp_path)
    assert len(Server.seen) == 1


def test_a_server_out_of_reach_is_named(server, tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(DataError, match=rf"{port}/a\.gz: .*refused.*data\.path=FOLDER"):
        fetch([f"http://127.0.0.1:{port}/a.gz"], tmp_path)


def test_a_server_that_says_nothing_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr(download, "PATIENCE", 0.1)
    monkeypatch.setattr(download, "PAUSE", 0.01)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/a.gz"
        with pytest.raises(DataError, match="timed out"):
            fetch([url], tmp_path)


@pytest.mark.parametrize(
    "url", ["file:///etc/hosts", "train.en.gz", "https://host/folder/", "https://host/%2e%2e", ""]
)
def test_what_is_no_address_of_a_file_is_refused(url, tmp_path):
    with pytest.raises(DataError, match=r"data\.urls: .* is no address of a file"):
        fetch([url], tmp_path)


def test_two_files_of_one_name_are_refused(tmp_path):
    with pytest.raises(DataError, match=r"both be called a\.gz"):
        fetch(["http://one/a.gz", "http://two/a.gz"], tmp_path)


def test_a_folder_that_cannot_be_made_is_named(server, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(DataError, match=r"cannot write the download into \S*file.*data\.cache"):
        fetch([f"{server}/good/a.gz"], tmp_path / "file")


def test_processes_that_want_the_same_file_download_it_once(server, tmp_path):
    code = "import sys; from pathlib import Path; from seq2seq.data.download import fetch\n"
    code += "fetch([sys.argv[1]], Path(sys.argv[2]))"
    command = [sys.executable, "-c", code, f"{server}/slow/a.gz", str(tmp_path)]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=-2) for _ in range(2)]
    for process in both:
        output, _ = process.communicate(timeout=60)
        assert process.returncode == 0, output
        assert not output  # no bars where there is no terminal
    assert len(Server.seen) == 1
    assert (tmp_path / "a.gz").read_bytes() == CONTENT
