"""A store of prepared data: machines that share no disk prepare together, and train from it."""

from __future__ import annotations

import logging
import shutil
from dataclasses import replace
from pathlib import Path

import fsspec
import pytest

from seq2seq.config import CleaningConfig, DataConfig, TokenizerConfig
from seq2seq.data import steps
from seq2seq.data.engines import LocalEngine
from seq2seq.data.manifest import read_manifest
from seq2seq.data.pipeline import prepare
from seq2seq.data.prepared import prepared_pairs
from seq2seq.data.shards import read_facts, read_table, write_table
from seq2seq.data.store import Store
from seq2seq.errors import DataError

URL = "memory://bucket/corpora"
TRAIN = [(f"I see {n % 90} big houses", f"je vois {n % 90} grandes maisons") for n in range(120)]
TOKENIZER = TokenizerConfig(vocab_size=300, dropout=0.1, dropout_variants=2)


class Elsewhere(LocalEngine):
    """An engine that does each job on a machine whose disk is empty."""

    machines = 2

    def __init__(self, cache: Path):
        super().__init__(1)
        self.cache = cache

    def each(self, function, jobs):
        here = self.cache.with_name("here")
        for job in jobs:
            self.cache.rename(here)
            steps._load.cache_clear()
            result = function(*job)
            shutil.rmtree(self.cache)
            here.rename(self.cache)
            yield result


class Broken:
    """An engine that must not be asked for anything."""


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    monkeypatch.setattr(steps, "PAIRS", 50)
    yield
    fsspec.filesystem("memory").store.clear()
    steps._load.cache_clear()


@pytest.fixture
def data(tmp_path) -> DataConfig:
    lines = "".join(f"{source}\t{target}\n" for source, target in TRAIN)
    (tmp_path / "train.tsv").write_text(lines, encoding="utf-8")
    return DataConfig(
        name="mine", path=str(tmp_path), val=None, test=None, source_column="0",
        target_column="1", cache=str(tmp_path / "cache"),
    )  # fmt: skip


def run(data, engine=None, cleaning=None):
    return prepare(data, cleaning or CleaningConfig(), TOKENIZER, engine=engine)


def hashes(prepared) -> list[str]:
    return [file["sha256"] for file in read_manifest(prepared.folder, verify=True)["files"]]


def test_machines_without_a_shared_disk_prepare_the_same_set(data, tmp_path):
    alone = run(data, LocalEngine(1))
    apart = replace(data, cache=str(tmp_path / "apart"), store=URL)
    together = run(apart, Elsewhere(Path(apart.cache)))
    assert together.report.dropped == alone.report.dropped
    other = run(replace(apart, cache=str(tmp_path / "third")), Broken())
    assert hashes(other) == hashes(alone)
    assert other.report.fingerprint == alone.report.fingerprint
    assert list(prepared_pairs(other.folder)) == list(dict.fromkeys(TRAIN))
    assert len(other.shards()[1].lengths) == 90


def test_what_is_damaged_here_is_fetched_again(data, tmp_path):
    config = replace(data, store=f"file://{tmp_path}/store")
    first = run(config, LocalEngine(1))
    before = hashes(first)
    first.shards()[1].paths[0].write_bytes(b"damaged")
    assert hashes(run(config, Broken())) == before


@pytest.mark.parametrize("kind", ["text", "ids-*"])
def test_what_an_older_preparation_left_here_is_not_mixed_with_the_new(data, tmp_path, kind):
    """On the machine that leads, which did none of the work."""
    before = hashes(run(data, LocalEngine(1)))
    apart = replace(data, cache=str(tmp_path / "apart"), store=URL)
    stale = next(Path(data.cache).glob(f"corpora/*/{kind}/*00000-000001.arrow"))
    left = Path(apart.cache) / stale.relative_to(data.cache)
    left.parent.mkdir(parents=True)
    table, facts = read_table(stale), read_facts(stale)
    write_table(left, table.slice(0, 10), {**facts, "rows": [0, 10], "part": "another"})
    assert hashes(run(apart, Elsewhere(Path(apart.cache)))) == before


def test_a_store_has_all_that_its_manifest_lists(data, tmp_path):
    """What was made before there was a store, too."""
    alone = run(data, LocalEngine(1))
    (alone.folder / "manifest.json").unlink()
    config = replace(data, store=f"file://{tmp_path}/store")
    before = hashes(run(config, LocalEngine(1)))
    elsewhere = replace(config, cache=str(tmp_path / "elsewhere"))
    assert hashes(run(elsewhere, Broken())) == before


def test_what_was_prepared_without_a_store_is_copied_to_it(data, tmp_path):
    before = hashes(run(data, LocalEngine(1)))
    config = replace(data, store=f"file://{tmp_path}/store")
    run(config)
    assert not (tmp_path / "store").exists()  # training reads its cache alone
    run(config, Broken())
    assert hashes(run(replace(config, cache=str(tmp_path / "elsewhere")), Broken())) == before


def test_a_copy_that_failed_is_made_by_the_next_start(data, tmp_path, monkeypatch):
    """Also if the preparation itself was complete."""
    config = replace(data, store=f"file://{tmp_path}/store")
    put = Store.put

    def failing(store, *paths, missing=False):
        if any(path.name == "manifest.json" for path in paths):
            raise DataError("no answer")
        put(store, *paths, missing=missing)

    with monkeypatch.context() as patch:
        patch.setattr(Store, "put", failing)
        with pytest.raises(DataError, match="no answer"):
            run(config, LocalEngine(1))
    before = hashes(run(config, Broken()))
    assert hashes(run(replace(config, cache=str(tmp_path / "elsewhere")), Broken())) == before


def test_prepared_text_that_is_not_whole_is_no_empty_text(data):
    found = run(data, LocalEngine(1))
    (found.folder / "manifest.json").unlink()
    with pytest.raises(DataError, match="are not whole: prepare them again"):
        list(prepared_pairs(found.folder))


def test_a_store_that_cannot_be_used_is_told_before_the_work(data):
    with pytest.raises(DataError, match=r"data\.store=nowhere://x cannot be used \(ValueError"):
        run(replace(data, store="nowhere://x"), Broken())


@pytest.mark.parametrize("name", ["botocore.configprovider", "aiobotocore.credentials"])
def test_the_log_has_no_notes_of_the_libraries_of_s3(name, caplog):
    with caplog.at_level(logging.INFO):
        logging.getLogger(name).info("Found credentials in environment variables.")
    assert not caplog.records


def flip(path: Path, place: int) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= 255
    path.write_bytes(content)


def test_a_damaged_file_of_the_store_is_named_and_not_used(data, tmp_path):
    """Nor is one that no manifest lists: what is not as it was written is made anew."""
    config = replace(data, store=f"file://{tmp_path}/store")
    before = hashes(run(config, LocalEngine(1)))
    part, shard = (
        next(tmp_path.glob(f"store/corpora/*/{name}-000001.arrow"))
        for name in ("text/00000", "ids-*/000-00000")
    )
    for victim in (part, shard):
        flip(victim, victim.stat().st_size // 2)
    elsewhere = replace(config, cache=str(tmp_path / "elsewhere"))
    for _ in range(2):
        with pytest.raises(DataError, match=f"{shard} is damaged: remove it there, and start"):
            run(elsewhere, Broken())
    shard.unlink()
    assert hashes(run(elsewhere, LocalEngine(1))) == before
    assert hashes(run(replace(config, cache=str(tmp_path / "third")), Broken())) == before


def test_a_machine_refuses_another_vocabulary_than_was_learned(data):
    found = run(data, LocalEngine(1))
    with pytest.raises(DataError, match=r"vocabulary is damaged: remove it, here and in data\.st"):
        steps._load(Store(Path(data.cache)), found.folder / "vocabulary", "hash of another")


@pytest.mark.parametrize("broken", ["", "a line without a tab\n"])
def test_of_text_that_changes_meanwhile_nothing_is_kept(broken, data, tmp_path, monkeypatch):
    """Neither here nor in the store: the text may become again what it was."""
    path = tmp_path / "train.tsv"
    before, clean_rows = path.read_text(encoding="utf-8"), steps.clean_rows

    def changing(cleaner, pairs):
        path.write_text(before.replace("houses", "horses") + broken, encoding="utf-8")
        return clean_rows(cleaner, pairs)

    config = replace(data, store=f"file://{tmp_path}/store")
    with monkeypatch.context() as patch:
        patch.setattr(steps, "clean_rows", changing)
        with pytest.raises(DataError, match=r"train\.tsv changed while it was prepared.*start"):
            run(config, LocalEngine(1))
    path.write_text(before, encoding="utf-8")
    assert list(prepared_pairs(run(config, LocalEngine(1)).folder)) == list(dict.fromkeys(TRAIN))
