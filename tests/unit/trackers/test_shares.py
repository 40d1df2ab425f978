"""What each tracker received at each `logger.share`, found again in its own files.

Trackers that stand for another machine are those of this one, told that they are not.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from seq2seq.config import LoggerConfig
from seq2seq.trackers import Artifact, Guarded, Picture, Table, Tracker, open_chosen
from seq2seq.trackers.csv import CsvTracker

KINDS = ("csv", "tensorboard", "trackio", "mlflow", "wandb")
SHARES = ("curves", "text", "all")
PLANTED = {  # in what trackers are given, and words that docs/reference/records.md has for it
    "curves": b"planted/curve",
    "settings": b"planted-setting",
    "parameters": b"planted-parameter",
    "sentences": b"planted-sentence",
    "report of the data": b"planted-line",
    "facts": b"planted-fact",
    "model": b"planted-weights",
    "notes": b"logger.share=text",
}
MEDIA = {
    "parameters": {"model/parameters": Table(["name"], [["planted-parameter"]])},
    "the report of the data": {"data/report": "<p>planted-line</p>"},
    "sentences and pictures": {
        "samples/fixed": Table(["source"], [["planted-sentence"]]),
        "samples/attention": [Picture(np.zeros((4, 4, 3), np.uint8), "planted-sentence")],
    },
}


def use(tracker: Tracker, bundle: Path) -> None:
    tracker.log_artifact("dataset", lambda: Artifact("data", {"kept": "planted-fact"}), used=True)
    tracker.log({"planted/curve": 3.0}, 0)
    for what, media in MEDIA.items():
        tracker.log_media(what, lambda media=media: media, 0)
    tracker.log_artifact("model", lambda: Artifact("bundle", {"step": 1}, bundle))
    tracker.finish({"steps": 1})


def use_all(folder: Path) -> None:
    """One run of each kind for each setting, and one of each kind that stays here."""
    bundle = folder / "given/bundle"
    bundle.mkdir(parents=True)
    (bundle / "model").write_text("planted-weights")
    for kind in KINDS:
        for share in ("here", *SHARES):
            place = folder / kind / share
            place.mkdir(parents=True)
            config = LoggerConfig(kind=kind, project=f"of-{share}")
            tracker = (CsvTracker(place / "metrics.csv") if kind == "csv" else
                       open_chosen(config, place, {"seed": "planted-setting"}).inner)  # fmt: skip
            tracker.where = None if share == "here" else "another machine"
            use(Guarded(tracker, "all" if share == "here" else share), bundle)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """In a process of its own, whose end has all of them write what they hold."""
    found = tmp_path_factory.mktemp("trackers")
    ours = {k: v for k, v in os.environ.items() if not k.startswith(("MLFLOW", "WANDB", "TRACKIO"))}
    places = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    code = f"import test_shares; test_shares.use_all(test_shares.Path({str(found)!r}))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=False,
        env=ours | {"PYTHONPATH": places, "WANDB_MODE": "offline",
                    "TRACKIO_DIR": str(found / "trackio")},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return found


def received(folder: Path, kind: str, share: str) -> set[str]:
    """What stands in the files of a tracker; those of Trackio lie together."""
    part = f"/of-{share}" if kind == "trackio" else f"/{kind}/{share}/"
    files = [path for path in (folder / kind).rglob("*") if path.is_file() and part in str(path)]
    held = b"\n".join(path.read_bytes() for path in files)
    return {what for what, planted in PLANTED.items() if planted in held}


def promised() -> dict[str, list[set[str]]]:
    """Of each tracker the cells of the table in docs/reference/records.md."""
    page = (Path(__file__).parents[3] / "docs/reference/records.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| (.*) \| (.*) \| (.*) \|$", page, re.M)
    return {name: [set(cell.split(", ")) - {""} for cell in cells] for name, *cells in rows}


@pytest.mark.parametrize("kind", KINDS)
def test_a_tracker_receives_what_the_documents_say(kind, folder):
    curves, text, everything = promised()[kind]
    assert received(folder, kind, "curves") == curves
    assert received(folder, kind, "text") == (curves | text) - {"notes"}
    assert received(folder, kind, "all") == (curves | text | everything) - {"notes"}
    assert received(folder, kind, "here") == received(folder, kind, "all")
