"""A corpus that a cluster of Ray prepares is the same as one that this machine prepares alone."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from seq2seq.config import CleaningConfig, DataConfig, TokenizerConfig
from seq2seq.config.data import EngineConfig
from seq2seq.data import engines
from seq2seq.data.engines import LocalEngine, RayEngine
from seq2seq.data.manifest import read_manifest
from seq2seq.data.pipeline import prepare
from seq2seq.errors import DataError

pytest.importorskip("ray", reason="pip install 'seq2seq[ray]'")
pytestmark = pytest.mark.slow

FILES, PAIRS = 2, 110_000  # two blocks a file
TOKENIZER = TokenizerConfig(vocab_size=300, dropout=0.1, dropout_variants=2, sample=1000)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory) -> DataConfig:
    """Several files with repetitions, within a file and between files, and pairs to drop."""
    folder = tmp_path_factory.mktemp("corpus")
    for file in range(FILES):
        numbers = [n * (file + 2) % 200_003 for n in range(PAIRS)]
        lines = [f"the house {n} is old\tla maison {n} est vieille" for n in numbers]
        lines[7] = "<b>bold</b>\t<b>gras</b>"
        text = "".join(f"{line}\n" for line in lines)
        (folder / f"train-{file}.tsv").write_text(text, encoding="utf-8")
    (folder / "val.tsv").write_text("the house 12 is old\tla maison 12 est vieille\n")
    return DataConfig(
        name="mine", path=str(folder), test=None, source_column="0", target_column="1",
        cache=str(folder / "local"),
    )  # fmt: skip


@pytest.fixture
def cluster():
    """A head that runs nothing, and two nodes of one core."""
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    yield made
    import ray

    ray.shutdown()
    made.shutdown()


def hashes(prepared) -> list[list[str]]:
    """Of all files of cleaned text and of ids."""
    folders = [prepared.folder.parent / "text", prepared.folder]
    return [[file["sha256"] for file in read_manifest(folder)["files"]] for folder in folders]


def kill_when_busy(cluster, node, text: Path) -> None:
    """Take a node away as soon as the first parts are there."""
    while not any(text.glob("*/text/*.arrow")):
        time.sleep(0.05)
    cluster.remove_node(node, allow_graceful=False)


def test_a_cluster_that_loses_a_machine_prepares_the_same_ids(corpus, cluster):
    alone = prepare(corpus, CleaningConfig(), TOKENIZER, engine=LocalEngine(1))
    lost, _ = (cluster.add_node(num_cpus=1) for _ in range(2))
    shared = replace(corpus, cache=corpus.cache + "-shared")
    text = Path(shared.cache) / "corpora"
    killer = threading.Thread(target=kill_when_busy, args=(cluster, lost, text), daemon=True)
    killer.start()
    together = prepare(shared, CleaningConfig(), TOKENIZER, engine=RayEngine(cluster.address))
    killer.join()
    assert hashes(together) == hashes(alone)
    assert together.report.fingerprint == alone.report.fingerprint
    report = together.report
    assert (report.kept, report.dropped) == (alone.report.kept, alone.report.dropped)
    assert report.dropped["duplicate"] > PAIRS // 2


def test_a_fault_of_the_corpus_is_told_as_without_a_cluster(corpus, cluster, tmp_path):
    cluster.add_node(num_cpus=1)
    (tmp_path / "train.tsv").write_bytes(b"one\tun\ntwo\xff\tdeux\n")
    broken = replace(corpus, path=str(tmp_path), val=None, cache=str(tmp_path / "cache"))
    with pytest.raises(DataError, match=r"^\S*train\.tsv, line 2: not UTF-8"):
        prepare(broken, CleaningConfig(), TOKENIZER, engine=RayEngine(cluster.address))


@pytest.mark.parametrize("address", ["auto", "127.0.0.1:1"])
def test_a_missing_cluster_is_told(address):
    with pytest.raises(DataError, match=rf"no Ray cluster at prepare\.address={address} "):
        RayEngine(address)


def test_a_task_that_kills_its_process_is_not_repeated_for_ever(monkeypatch):
    """On a cluster of this machine alone, of as many processes as were asked for."""
    import ray

    monkeypatch.setattr(engines, "RETRIES", 1)
    engine = engines.engine_of(EngineConfig(engine="ray"), 1)
    try:
        assert ray.cluster_resources()["CPU"] == 1
        with pytest.raises(DataError, match=r"(?s)lost .* \(WorkerCrashedError: .* with fewer"):
            list(engine.each(os._exit, [(1,)]))
    finally:
        ray.shutdown()
