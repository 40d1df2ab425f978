"""The model that this tree ships: whole, small, described, and at work right after installation."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT
from ship import LIMIT, read_notes, shipped_card

from seq2seq import Translator
from seq2seq.bundle.bundle import load_bundle
from seq2seq.bundle.find import GENERAL, shipped_model
from seq2seq.report.run import read_run

FOLDER = shipped_model()
pytestmark = pytest.mark.skipif(FOLDER is None, reason="this tree ships no model")
KEPT = ROOT / "results" / GENERAL


def texts_in(value: Any) -> Iterator[str]:
    if isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from texts_in(part)
    elif isinstance(value, str):
        yield value


def test_hello_world_is_answered_where_there_are_no_runs(translate, tmp_path):
    result = translate("hello world", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert re.search(r"\w{3}", result.stdout)
    assert result.stdout.casefold() != "hello world\n"
    assert f"using the model {FOLDER} (general, shipped with seq2seq)" in result.stderr
    assert not list(tmp_path.iterdir())


def test_it_is_loaded_by_name_and_greets(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    [named] = Translator.load("general", "cpu").translate(["Good morning!"])
    [unnamed] = Translator.load(device="cpu").translate(["Good morning!"])
    assert named.text == unnamed.text
    assert re.search(r"\w{3}", named.text)


def test_it_is_small_enough_for_git():
    assert sorted(file.name for file in FOLDER.iterdir()) == [
        "README.md", "config.json", "model.safetensors", "tokenizer.json"
    ]  # fmt: skip
    assert sum(file.stat().st_size for file in FOLDER.iterdir()) <= LIMIT == 32 * 2**20
    starts = (FOLDER / "model.safetensors").read_bytes()[:40]
    assert not starts.startswith(b"version https://git-lfs")


def test_its_card_is_made_from_its_run_and_the_notes():
    run, notes = read_run(KEPT, GENERAL), read_notes(KEPT / "notes.md")
    written = (FOLDER / "README.md").read_text()
    assert written.startswith(f"{shipped_card(run, load_bundle(FOLDER), notes)}\n## Files\n")
    assert run.evaluations


def test_it_tells_no_place_of_the_machine_that_made_it():
    run = read_run(KEPT, GENERAL)
    tested = [{"data": one.data, "model": one.model} for one in run.evaluations.values()]
    told = [load_bundle(FOLDER).training, run.settings, run.summary, *tested]
    assert not [text for text in texts_in(told) if Path(text).is_absolute()]
    for start in run.origin.starts if run.origin else ():
        assert not re.search(r"(^|[\s=,\[])/", f"{start.folder} {start.command}")
