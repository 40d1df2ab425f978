"""Models of the hub by name: a hub of our own on this machine answers, or does not."""

import hashlib
import json
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from marian import marian

pytest.importorskip("transformers")

TRY = """
import logging, sys
from pathlib import Path
from seq2seq.errors import UserError
from seq2seq.bundle.find import hub_name
from seq2seq.bundle.hub import hub_bundle, import_from_hub

logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="LOG %(message)s")
logging.getLogger("httpx").setLevel("WARNING"), logging.getLogger("httpx2").setLevel("WARNING")
for text in sys.argv[1:]:
    ask = hub_bundle if not text.startswith("again:") else import_from_hub
    try:
        print("BUNDLE", ask(*hub_name(text.removeprefix("again:"))).name)
    except UserError as error:
        print("ERROR", error)
"""
COMMITS = {"main": "a" * 40, "v1": "b" * 40}


class Hub(BaseHTTPRequestHandler):
    """As much of the hub's API as a download of a model asks for."""

    root: Path
    broken = False  # whether connections end in the middle of the weights

    def do_GET(self) -> None:
        parts = self.path.partition("?")[0].strip("/").split("/")
        if parts[:2] == ["api", "models"]:
            self.about("/".join(parts[2:4]), parts[5] if len(parts) > 5 else "main")
        elif len(parts) < 5:
            self.answer(404)
        else:
            self.file(self.root / "/".join(parts[:2]) / "/".join(parts[4:]), parts[3])

    do_HEAD = do_GET

    def about(self, name: str, revision: str) -> None:
        if name == "Own/gated":
            self.answer(403, x_error_code="GatedRepo")
        elif not (self.root / name).is_dir():
            self.answer(404, x_error_code="RepoNotFound")
        elif revision not in (*COMMITS, *COMMITS.values()):
            self.answer(404, x_error_code="RevisionNotFound")
        else:
            files = [{"rfilename": f.name} for f in (self.root / name).iterdir()]
            commit = COMMITS.get(revision, revision)
            about = {"id": name, "sha": commit, "siblings": files}
            if "/tree/" in self.path:
                about = [{"type": "file", "path": f.name, "size": f.stat().st_size, "oid": "0"}
                         for f in (self.root / name).iterdir()]  # fmt: skip
            self.answer(200, json.dumps(about).encode())

    def file(self, path: Path, commit: str) -> None:
        if not path.is_file():
            self.answer(404, x_error_code="EntryNotFound", x_repo_commit=commit)
            return
        etag = f'"{hashlib.sha1(path.read_bytes()).hexdigest()}"'
        self.answer(200, path.read_bytes(), x_repo_commit=commit, etag=etag)

    def answer(self, code: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(code)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            cut = self.broken and len(body) > 50_000
            self.wfile.write(body[: len(body) // 2] if cut else body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("hub")
    marian(root / "Own" / "opus")
    (root / "Own" / "empty").mkdir()
    (root / "Own" / "empty" / "README.md").touch()
    return root


@pytest.fixture(scope="module")
def said(models, tmp_path_factory) -> dict[str, list[str]]:
    """What naming models gave in four processes, one after another, with one cache."""
    folder = tmp_path_factory.mktemp("user")
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Models", (Hub,), {"root": models}))
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    variables = {
        "HF_ENDPOINT": f"http://127.0.0.1:{server.server_address[1]}",
        "HF_HOME": str(folder / "hf"),
        "SEQ2SEQ_CACHE": str(folder / "cache"),
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    }
    found = {}
    server.RequestHandlerClass.broken = True
    found["broken"] = tried("Own/opus", **variables)
    server.RequestHandlerClass.broken = False
    names = ("Own/opus", "hf:Own/opus", "Own/opus@v1",
             "Own/nothing", "Own/gated", "Own/opus@v9", "Own/empty")  # fmt: skip
    found["online"] = tried(*names, **variables)
    server.shutdown()
    server.server_close()
    found["gone"] = tried("Own/opus", "Own/other", **variables)
    found["offline"] = tried("again:Own/opus", "Own/other", **variables, HF_HUB_OFFLINE="1")
    return found


def tried(*names: str, **variables: str) -> list[str]:
    """What naming each of them gave, in a process of its own: the library reads variables once."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("HF_")}
    result = subprocess.run(
        [sys.executable, "-c", TRY, *names],
        env={**environment, **variables},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout.splitlines()


def test_a_model_is_downloaded_once_and_found_again_without_the_hub(said):
    assert said["online"][:5] == [
        f"LOG importing   Own/opus, commit {COMMITS['main']}",
        "BUNDLE Own--opus",
        "BUNDLE Own--opus",
        f"LOG importing   Own/opus, commit {COMMITS['v1']}",
        "BUNDLE Own--opus@v1",
    ]
    assert said["gone"][0] == "BUNDLE Own--opus"
    warning, importing, again, _ = said["offline"]
    assert warning.startswith("LOG taking the copy of Own/opus that is here: OfflineModeIsEnabled")
    assert importing == f"LOG importing   Own/opus, commit {COMMITS['main']}"
    assert again == "BUNDLE Own--opus"


def test_what_the_hub_refuses_is_explained(said):
    missing, gated, revision, empty = (
        line for line in said["online"] if line.startswith("ERROR")
    )
    assert "model Own/nothing cannot be downloaded: RepositoryNotFoundError" in missing
    assert "Own/gated cannot be downloaded: GatedRepoError" in gated
    assert "Own/opus@v9 cannot be downloaded: RevisionNotFoundError" in revision
    assert "seq2seq import FOLDER" in revision
    assert "Own/empty holds none of model.safetensors and pytorch_model.bin" in empty


def test_a_download_that_breaks_off_is_told_and_made_whole_the_next_time(said):
    assert "the model Own/opus cannot be downloaded: " in said["broken"][-1]
    assert not any("importing" in line for line in said["broken"])
    assert "BUNDLE Own--opus" in said["online"]


def test_without_a_hub_and_a_copy_the_way_out_is_named(said):
    assert "Own/other cannot be downloaded: OfflineModeIsEnabled" in said["offline"][-1]
    refused = said["gone"][-1]
    assert "Own/other cannot be downloaded: ConnectError" in refused
    assert "seq2seq import FOLDER" in refused
