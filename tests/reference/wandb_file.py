"""What an offline run of W&B wrote: the records of its `.wandb` files.

A file is a header of 7 bytes and a log in LevelDB's format: blocks of 32 KiB, and in them pieces of
records, each with a header of 7 bytes: check sum (4), length (2), kind (1).
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wandb.proto.wandb_internal_pb2 import Record

BLOCK, HEADER = 2**15, 7
FULL, FIRST, MIDDLE, LAST = 1, 2, 3, 4


def records(file: Path) -> Iterator[Record]:
    data = file.read_bytes()
    assert data.startswith(b":W&B")
    at, parts = HEADER, b""
    while at + HEADER <= len(data):
        if BLOCK - at % BLOCK < HEADER:  # no room for a header: the rest of the block is empty
            at += BLOCK - at % BLOCK
            continue
        _, length, kind = struct.unpack("<IHB", data[at : at + HEADER])
        assert kind in (FULL, FIRST, MIDDLE, LAST)
        part = data[at + HEADER : at + HEADER + length]
        parts = part if kind in (FULL, FIRST) else parts + part
        if kind in (FULL, LAST):
            yield Record.FromString(parts)
        at += HEADER + length


@dataclass
class OfflineRun:
    """What one folder `wandb/offline-run-*` holds.

    Attributes:
        folder: of it.
        identity: id, project, group and name.
        rows: of the history, in order: values by key.
        config, summary: at the end.
        metrics: definitions: the key or glob, and what it is drawn over.
        artifacts: name -> type, aliases, description, facts, whether the run used it (or made
            it), its digest, paths of its files.
    """

    folder: Path
    identity: dict[str, str] = field(default_factory=dict)
    rows: list[dict[str, Any]] = field(default_factory=list)
    config: dict[str, Any] = field(default_factory=dict)
    summary: dict[str, Any] = field(default_factory=dict)
    metrics: dict[str, str] = field(default_factory=dict)
    artifacts: dict[str, dict[str, Any]] = field(default_factory=dict)

    def values(self, key: str) -> dict[int, Any]:
        """What was logged of a key, by step (from 1, as the log of a run counts)."""
        rows = [row for row in self.rows if key in row]
        found = {int(row["trainer/global_step"]) + 1: row[key] for row in rows}
        assert len(found) == len(rows), f"{key} was logged twice for a step"
        return found

    def media(self, value: dict[str, Any]) -> Path:
        """The file of a picture, page or table."""
        return self.folder / "files" / value["path"]

    def table(self, value: dict[str, Any]) -> list[dict[str, Any]]:
        """The rows of a table."""
        content = json.loads(self.media(value).read_text(encoding="utf-8"))
        return [dict(zip(content["columns"], row, strict=True)) for row in content["data"]]


def read_offline(run_dir: Path) -> list[OfflineRun]:
    """All that was logged offline, each start of the run by itself, the first one first."""
    return [_read(file) for file in sorted((run_dir / "wandb").glob("offline-run-*/*.wandb"))]


def _read(file: Path) -> OfflineRun:
    run = OfflineRun(file.parent)
    for record in records(file):
        if record.HasField("run"):
            found = record.run
            run.identity = {
                "id": found.run_id, "project": found.project, "group": found.run_group,
                "name": found.display_name,
            }  # fmt: skip
            _update(run.config, found.config.update)
        elif record.HasField("config"):
            _update(run.config, record.config.update)
        elif record.HasField("history"):
            run.rows.append({})
            _update(run.rows[-1], record.history.item)
        elif record.HasField("summary"):
            _update(run.summary, record.summary.update)
        elif record.HasField("metric"):
            name = record.metric.name or record.metric.glob_name
            run.metrics[name] = record.metric.step_metric
        elif record.HasField("artifact"):
            made = record.artifact
            run.artifacts[made.name] = {
                "type": made.type, "aliases": list(made.aliases),
                "description": made.description, "facts": json.loads(made.metadata or "{}"),
                "used": made.use_after_commit, "digest": made.digest,
                "files": {entry.path: Path(entry.local_path) for entry in made.manifest.contents},
            }  # fmt: skip
    return run


def _update(values: dict[str, Any], items: Any) -> None:
    for item in items:
        path = [item.key] if item.key else list(item.nested_key)
        inner = values
        for name in path[:-1]:
            inner = inner.setdefault(name, {})
        inner[path[-1]] = json.loads(item.value_json)
