"""Parts: every pair of the sources is read once and cleaned, whoever shares the work."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from seq2seq.config import CleaningConfig
from seq2seq.data import parts as module
from seq2seq.data.cleaning import Cleaner, pair_key
from seq2seq.data.parts import all_parts, clean_sources, read_keys, read_texts
from seq2seq.data.shards import read_facts
from seq2seq.data.sources import FileSource

PAIRS = [(f"sentence number {n}", f"phrase numéro {n}") for n in range(95)]
ODD = {7: ("", "vide"), 40: ("empty", ""), 41: ("bad \ufffd", "mauvais"), 94: (" ", "x")}
CLEANING = CleaningConfig(filters=["empty", "damaged", "leakage"])


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


def folder(tmp_path: Path) -> Path:
    made = tmp_path / "text"
    made.mkdir(exist_ok=True)
    return made


def clean(sources, where, cleaner=None, processes=1, **tasks):
    clean_sources(sources, cleaner or Cleaner(CLEANING), where, processes, **tasks)
    return all_parts(where, len(sources))


def texts(parts) -> list[tuple[str, str]]:
    paths = itertools.chain(*parts)
    return [pair for path in paths for pair in zip(*read_texts(path), strict=True)]


KEPT = [pair for number, pair in enumerate(PAIRS) if number not in ODD]


@pytest.mark.parametrize("processes", [1, 2])
def test_all_pairs_are_kept_in_order_but_those_that_are_dropped(sources, tmp_path, processes):
    parts = clean(sources, folder(tmp_path), processes=processes)
    assert [len(paths) for paths in parts] == [6, 4]
    assert texts(parts) == KEPT
    facts = [read_facts(path) for path in itertools.chain(*parts)]
    assert sum(part["read"] for part in facts) == len(PAIRS)
    dropped = [(name, n) for part in facts for name, n in part["dropped"].items()]
    assert sorted(dropped) == [("damaged", 1), ("empty", 1), ("empty", 1), ("empty", 1)]
    examples = [pair for part in facts for pair in part["examples"].get("empty", [])]
    assert examples == [["", "vide"], ["empty", ""], ["", "x"]]


def test_keys_are_those_of_the_pairs(sources, tmp_path):
    parts = clean(sources, folder(tmp_path))
    for path in itertools.chain(*parts):
        pairs = zip(*read_texts(path), strict=True)
        assert read_keys(path).tolist() == [pair_key(*pair) for pair in pairs]


def test_a_block_ends_where_its_text_gets_too_long(sources, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "CHARACTERS", 100)
    parts = clean(sources, folder(tmp_path))
    assert len(parts[0]) > 15
    assert texts(parts) == KEPT


@pytest.mark.parametrize("tasks", [2, 3, 5])
def test_tasks_share_the_parts_and_the_last_one_finds_all(sources, tmp_path, tasks):
    where = folder(tmp_path)
    made = []
    for task in range(tasks):
        assert all_parts(where, len(sources)) is None
        parts = clean(sources, where, task=task, tasks=tasks)
        made.append(len(list(where.glob("*.arrow"))))
    assert texts(parts) == KEPT
    assert made == sorted(set(made))  # each task made some


def test_what_is_whole_is_not_made_again_and_what_is_damaged_is(sources, tmp_path):
    where = folder(tmp_path)
    parts = clean(sources, where)
    before = {path: path.stat().st_mtime_ns for path in itertools.chain(*parts)}
    damaged, missing = parts[0][2], parts[1][1]
    damaged.write_bytes(damaged.read_bytes()[:-9])
    missing.unlink()
    assert texts(clean(sources, where)) == KEPT
    changed = [path for path in before if path.stat().st_mtime_ns != before[path]]
    assert changed == [damaged, missing]


def test_an_interrupted_source_is_read_to_its_end_the_next_time(sources, tmp_path, monkeypatch):
    where = folder(tmp_path)
    write_table, calls = module.write_table, itertools.count()

    def stop_after_four(*args, **options):
        if next(calls) == 4:
            raise KeyboardInterrupt
        write_table(*args, **options)

    monkeypatch.setattr(module, "write_table", stop_after_four)
    with pytest.raises(KeyboardInterrupt):
        clean(sources, where)
    assert len(list(where.glob("*.arrow"))) == 4
    assert all_parts(where, len(sources)) is None
    monkeypatch.setattr(module, "write_table", write_table)
    assert texts(clean(sources, where)) == KEPT


def test_leaked_sentences_are_dropped_and_named(sources, tmp_path):
    cleaner = Cleaner(CLEANING, [("Sentence number 3!", "autre"), ("other", "phrase numéro 80")])
    parts = clean(sources, folder(tmp_path), cleaner)
    assert texts(parts) == [pair for pair in KEPT if pair not in (PAIRS[3], PAIRS[80])]
    leaked = [key for path in itertools.chain(*parts) for key in read_facts(path)["leaked"]]
    assert len(leaked) == 4  # both sides of each pair


def test_an_empty_source_has_no_parts(tmp_path):
    assert clean([write(tmp_path, "none.tsv", [])], folder(tmp_path)) == [[]]
