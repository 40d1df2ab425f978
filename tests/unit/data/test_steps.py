"""Cleaning in parts: every pair of the sources is read once, whoever shares the work."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import pytest

from seq2seq.config import CleaningConfig
from seq2seq.data import steps as module
from seq2seq.data.cleaning import Cleaner, pair_key, text_key
from seq2seq.data.engines import LocalEngine
from seq2seq.data.manifest import File
from seq2seq.data.shards import read_facts, read_keys, read_texts
from seq2seq.data.sources import FileSource
from seq2seq.data.stats import Losses
from seq2seq.data.steps import EXAMPLES, clean_block, cut_source
from seq2seq.data.store import Store

PAIRS = [(f"sentence number {n}", f"phrase numéro {n}") for n in range(95)]
ODD = {7: ("", "vide"), 40: ("empty", ""), 41: ("bad \ufffd", "mauvais"), 94: (" ", "x")}
CLEANING = CleaningConfig(filters=["empty", "damaged", "leakage"], leakage_from=1)


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    monkeypatch.setattr(module, "PAIRS", 10)


def write(folder: Path, name: str, pairs) -> FileSource:
    path = folder / name
    lines = "".join(f"{source}\t{target}\n" for source, target in pairs)
    path.write_text(lines, encoding="utf-8")
    return FileSource("member", (path,), ("0", "1"))


@pytest.fixture
def sources(tmp_path) -> list[FileSource]:
    pairs = [ODD.get(number, pair) for number, pair in enumerate(PAIRS)]
    return [write(tmp_path, "a.tsv", pairs[:60]), write(tmp_path, "b.tsv", pairs[60:])]


@pytest.fixture
def folder(tmp_path) -> Path:
    made = tmp_path / "text"
    made.mkdir()
    return made


def clean(sources, folder, cleaner=None, processes=1) -> list[tuple[File, dict[str, Any]]]:
    step = functools.partial(clean_block, cleaner or Cleaner(CLEANING), Store(folder), folder)
    blocks = (block for place, source in enumerate(sources) for block in cut_source(source, place))
    parts = LocalEngine(processes).each(step, ((block,) for block in blocks))
    return [(file, read_facts(folder / file["file"])) for file in parts]


def texts(parts, folder) -> list[tuple[str, str]]:
    return [pair for file, _ in parts
            for pair in zip(*read_texts(folder / file["file"]), strict=True)]


KEPT = [pair for number, pair in enumerate(PAIRS) if number not in ODD]


@pytest.mark.parametrize("processes", [1, 2])
def test_all_pairs_are_kept_in_order_but_those_that_are_dropped(sources, folder, processes):
    parts = clean(sources, folder, processes=processes)
    assert [file["source"] for file, _ in parts] == [0] * 6 + [1] * 4
    assert texts(parts, folder) == KEPT
    assert sum(facts["read"] for _, facts in parts) == len(PAIRS)
    dropped = [(name, n) for _, facts in parts for name, n in facts["dropped"].items()]
    assert sorted(dropped) == [("damaged", 1), ("empty", 1), ("empty", 1), ("empty", 1)]
    examples = [pair for _, facts in parts for pair in facts["examples"].get("empty", [])]
    assert examples == [["", "vide"], ["empty", ""], ["", "x"]]


def test_keys_are_those_of_the_pairs(sources, folder):
    for file, _ in clean(sources, folder):
        path = folder / file["file"]
        pairs = zip(*read_texts(path), strict=True)
        assert read_keys(path).tolist() == [pair_key(*pair) for pair in pairs]


def test_a_block_ends_where_its_text_gets_too_long(sources, folder, monkeypatch):
    monkeypatch.setattr(module, "CHARACTERS", 100)
    parts = clean(sources, folder)
    assert len(parts) > 20
    assert texts(parts, folder) == KEPT


def test_what_is_there_is_not_made_again_and_what_cannot_be_read_is(sources, folder):
    parts = clean(sources, folder)
    paths = [folder / file["file"] for file, _ in parts]
    before = {path: path.stat().st_mtime_ns for path in paths}
    paths[2].write_bytes(paths[2].read_bytes()[:-9])
    paths[7].unlink()
    again = clean(sources, folder)
    assert again == parts  # the same facts, read or made
    assert texts(again, folder) == KEPT
    changed = [path for path in before if path.stat().st_mtime_ns != before[path]]
    assert changed == [paths[2], paths[7]]


def test_leaked_sentences_are_dropped_and_named(sources, folder):
    cleaner = Cleaner(CLEANING, [("Sentence number 3!", "autre"), ("other", "phrase numéro 80")])
    parts = clean(sources, folder, cleaner)
    assert texts(parts, folder) == [pair for pair in KEPT if pair not in (PAIRS[3], PAIRS[80])]
    leaked = [key for _, facts in parts for key in facts["leaked"]]
    assert leaked == [text_key(PAIRS[3][0]), text_key(PAIRS[80][1])]


def test_an_empty_source_has_no_parts(tmp_path, folder):
    assert clean([write(tmp_path, "none.tsv", [])], folder) == []


def test_of_any_number_of_blocks_all_losses_are_counted_and_a_few_are_kept(tmp_path, folder):
    source = write(tmp_path, "many.tsv", [("", f"vide {n}") for n in range(95)])
    losses = Losses()
    for _, facts in clean([source], folder):
        losses.add(facts)
    assert (losses.read, losses.dropped) == (95, {"empty": 95})
    assert losses.examples == {"empty": [["", f"vide {n}"] for n in range(EXAMPLES)]}
