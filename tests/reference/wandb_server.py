"""As much of a W&B server as `wandb sync` needs: it takes rows of the history, and files.

It knows no artifacts, and notes which ones were offered.
"""

from __future__ import annotations

import gzip
import json
import re
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

PROJECT = {"id": "p", "name": "seq2seq", "internalId": "1", "entity": {"id": "e", "name": "me"}}


class Server(ThreadingHTTPServer):
    """What arrived: rows of the history by place, sizes of files, names of artifacts."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.rows: list[str] = []
        self.files: dict[str, int] = {}
        self.artifacts: set[str] = set()
        self.known = False  # whether the run is

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def history(self) -> list[dict[str, Any]]:
        return [json.loads(row) for row in self.rows]

    def handle_error(self, *_: Any) -> None:
        """Clients go without goodbye."""

    def answer(self, query: str, values: dict[str, Any]) -> dict[str, Any] | None:
        """The data of a GraphQL request; None = not known here."""
        name = re.search(r"(?:query|mutation)\s+(\w+)", query)
        what = name[1] if name else ""
        run = {"id": "b", "name": values.get("name"), "displayName": "run", "project": PROJECT,
               "config": "{}", "historyLineCount": len(self.rows)}  # fmt: skip
        if what == "UpsertBucket":
            created, self.known = not self.known, True
            return {"upsertBucket": {"bucket": run, "inserted": created}}
        if what == "RunResumeStatus":
            tail = json.dumps(self.rows[-1:])
            more = {"summaryMetrics": "{}", "logLineCount": 0, "eventsLineCount": 0, "tags": [],
                    "historyTail": tail, "eventsTail": "[]", "wandbConfig": '{"t": 1}'}  # fmt: skip
            return {"model": {**PROJECT, "bucket": run | more} if self.known else None}
        if what == "CreateRunFiles":
            files = [{"name": f, "uploadUrl": f"{self.url}/file/{f}"} for f in values["files"]]
            return {"createRunFiles": {"runID": "b", "uploadHeaders": [], "files": files}}
        if what == "CreateArtifact":
            self.artifacts.add(values["input"]["artifactCollectionName"])
        return {"serverInfo": {"features": []}} if what == "ServerFeaturesQuery" else None


class Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        pass

    def do_PUT(self) -> None:
        self.server.files[self.path.removeprefix("/file/")] = len(self._body())
        self._reply({})

    def do_GET(self) -> None:
        self._reply({})

    def do_POST(self) -> None:
        body = self._body()
        content = json.loads(body) if body else {}
        if "graphql" in self.path:
            data = self.server.answer(content.get("query", ""), content.get("variables") or {})
            self._reply({"data": data} if data else {"errors": [{"message": "not known here"}]})
            return
        history = (content.get("files") or {}).get("wandb-history.jsonl")
        if history:
            first = history["offset"]
            self.server.rows[first : first + len(history["content"])] = history["content"]
        self._reply({"exitcode": None, "limits": {}})

    def _body(self) -> bytes:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        return gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body

    def _reply(self, value: Any) -> None:
        body = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def wandb_server():
    server = Server()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
