"""How fast text becomes batches, beside `datasets.map` and a plain PyTorch loader.

All of it in one thread, on the same pairs and the same vocabulary. Both loaders give the same
kind of batch; the plain one sorts by length and takes a fixed number of sentences.
"""

from __future__ import annotations

import json
import os
import pickle
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import torch
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

from seq2seq.benchmarks.settings import DataBenchmarkConfig
from seq2seq.data.batching import Budget, TrainingBatches, padding_share
from seq2seq.data.cleaning import Cleaner
from seq2seq.data.collate import Batch
from seq2seq.data.corpus import Pair
from seq2seq.data.datamodule import TrainingPairs
from seq2seq.data.shards import Shards, ids_table, write_table
from seq2seq.data.sources import find_sources
from seq2seq.data.tokenizer import BOS, EOS, PAD
from seq2seq.data.vocabularies import Vocabularies
from seq2seq.errors import DataError

SIDES = ("source", "target")


def benchmark_data(config: DataBenchmarkConfig) -> None:
    """Run `scripts/benchmark.py data`: print one JSON line for each measurement.

    Raises:
        DataError: the corpus cannot be read, or nothing of it is usable.
    """
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    datasets.disable_progress_bars()
    with tempfile.TemporaryDirectory() as folder:
        for measured in _measure(config, Path(folder)):
            print(json.dumps(measured), flush=True)
    torch.set_num_threads(threads)


def _measure(config: DataBenchmarkConfig, folder: Path) -> Iterator[dict[str, Any]]:
    raw = list(islice(_pairs(config), config.pairs))
    cleaner = Cleaner(config.cleaning)
    cleaned = [cleaner(*pair) for pair in raw]
    pairs = [(source, target) for source, target, reason in cleaned if reason is None]
    if not pairs:
        raise DataError(f"data={config.data.name} has no usable train pair")
    repeats = config.repeats
    seconds = _median(repeats, lambda: [cleaner(*pair) for pair in raw])
    yield {"what": "clean", "pairs_per_second": round(len(raw) / seconds)}

    vocabularies = Vocabularies.train(lambda: iter(pairs), config.tokenizer)
    ours = _median(repeats, lambda: _tokenise(pairs, vocabularies, folder / "ids.arrow"))
    plain = _median(repeats, lambda: _map(pairs, vocabularies, folder))
    for name, seconds in (("seq2seq", ours), ("datasets.map", plain)):
        yield {"what": "tokenise", "by": name, "pairs_per_second": round(len(pairs) / seconds)}

    shards = Shards([folder / "ids.arrow"])
    usable = np.flatnonzero(shards.lengths.max(axis=1) <= config.max_length)
    budget = Budget(config.data.max_tokens, config.data.max_sentences, config.data.length_multiple)
    batches = TrainingBatches([shards.lengths], budget, config.seed, usable=usable)
    epoch = [batch for pool in batches.epoch(0) for batch in pool]
    pairs_of = TrainingPairs([shards], budget.multiple)
    ours = _median(
        repeats,
        lambda: _drain(islice(DataLoader(pairs_of, sampler=batches, batch_size=None), len(epoch))),
    )
    ids = _map(pairs, vocabularies, folder)
    sentences = round(len(usable) / len(epoch))
    order = usable[np.argsort(shards.lengths[usable].max(axis=1), kind="stable")]
    plain_batches = [order[i : i + sentences].tolist() for i in range(0, len(order), sentences)]
    plain = _median(
        repeats,
        lambda: _drain(DataLoader(ids, batch_sampler=plain_batches, collate_fn=_collate)),
    )
    tokens = int(shards.lengths[usable, 1].astype(np.int64).sum())
    shares = (
        padding_share(shards.lengths, epoch, budget.multiple),
        padding_share(shards.lengths, [np.array(batch) for batch in plain_batches]),
    )
    for name, seconds, count, share in (
        ("seq2seq", ours, len(epoch), shares[0]),
        ("plain loader", plain, len(plain_batches), shares[1]),
    ):
        yield {
            "what": "load an epoch",
            "by": name,
            "target_tokens_per_second": round(tokens / seconds),
            "batches": count,
            "padding_share": round(share, 4),
        }


def _pairs(config: DataBenchmarkConfig) -> Iterator[Pair]:
    for source in find_sources(config.data, "train"):
        yield from source.pairs()


def _median(repeats: int, work: Callable[[], object]) -> float:
    """Seconds that the work takes."""
    seconds = []
    for _ in range(repeats):
        started = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - started)
    return statistics.median(seconds)


def _tokenise(pairs: list[Pair], vocabularies: Vocabularies, path: Path) -> None:
    fresh = pickle.loads(pickle.dumps(vocabularies))  # begins with an empty cache of words
    sources, targets = zip(*pairs, strict=True)
    ids = (fresh.source.encode(list(sources)), fresh.target.encode(list(targets)))
    write_table(path, ids_table(*ids, max(fresh.sizes)), {})


def _map(pairs: list[Pair], vocabularies: Vocabularies, folder: Path) -> datasets.Dataset:
    """What most projects do: the library's tokenizer in a batched `map`."""
    columns = map(list, zip(*pairs, strict=True))
    texts = datasets.Dataset.from_dict(dict(zip(SIDES, columns, strict=True)))
    backends = (vocabularies.source.backend, vocabularies.target.backend)

    def encode(rows: dict[str, list[str]]) -> dict[str, list[list[int]]]:
        encoded = {}
        for side, backend in zip(SIDES, backends, strict=True):
            encoded[side] = [e.ids for e in backend.encode_batch_fast(rows[side])]
        return encoded

    file = folder / f"map-{time.monotonic_ns()}.arrow"
    return texts.map(encode, batched=True, cache_file_name=str(file), load_from_cache_file=False)


def _collate(rows: list[dict[str, list[int]]]) -> Batch:
    sources = [torch.tensor([*row["source"], EOS]) for row in rows]
    inputs = [torch.tensor([BOS, *row["target"]]) for row in rows]
    labels = [torch.tensor([*row["target"], EOS]) for row in rows]
    source, target_in, padded_labels = (
        pad_sequence(side, batch_first=True, padding_value=PAD)
        for side in (sources, inputs, labels)
    )
    return Batch(
        source, target_in, padded_labels, sum(map(len, sources)), sum(map(len, labels))
    )


def _drain(batches: Iterable[Batch]) -> None:
    for _ in batches:
        pass
