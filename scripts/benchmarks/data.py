"""How fast text becomes batches, beside `datasets.map` and a plain PyTorch loader.

All of it in one thread, on the same pairs and the same vocabulary. Both loaders give the same
kind of batch; the plain one sorts by length and takes a fixed number of sentences.
"""

from __future__ import annotations

import json
import os
import pickle
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import torch
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

from benchmarks.measuring import median_seconds
from benchmarks.settings import DataBenchmarkConfig
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
    torch.set_num_threads(1)
    datasets.disable_progress_bars()
    with tempfile.TemporaryDirectory() as folder:
        for measured in _measure(config, Path(folder)):
            print(json.dumps(measured), flush=True)


def _measure(config: DataBenchmarkConfig, folder: Path) -> Iterator[dict[str, Any]]:
    seconds = partial(median_seconds, repeats=config.repeats, warm_up=0)
    sources = find_sources(config.data, "train")
    raw = list(islice(chain.from_iterable(source.pairs() for source in sources), config.pairs))
    cleaner = Cleaner(config.cleaning)
    pairs = [pair[:2] for pair in (cleaner(*pair) for pair in raw) if pair[2] is None]
    if not pairs:
        raise DataError(f"data={config.data.name} has no usable train pair")
    cleaning = seconds(lambda: [cleaner(*pair) for pair in raw])
    yield {"what": "clean", "pairs_per_second": round(len(raw) / cleaning)}

    vocabularies = Vocabularies.train(lambda: iter(pairs), config.tokenizer)
    for name, tokenise in (
        ("seq2seq", lambda: _tokenise(pairs, vocabularies, folder / "ids.arrow")),
        ("datasets.map", lambda: _map(pairs, vocabularies, folder)),
    ):
        rate = round(len(pairs) / seconds(tokenise))
        yield {"what": "tokenise", "by": name, "pairs_per_second": rate}

    shards, multiple = Shards([folder / "ids.arrow"]), config.data.length_multiple
    usable = np.flatnonzero(shards.lengths.max(axis=1) <= config.max_length)
    budget = Budget(config.data.max_tokens, config.data.max_sentences, multiple)
    sampler = TrainingBatches([shards.lengths], budget, config.seed, usable=usable)
    ours = [batch for pool in sampler.epoch(0) for batch in pool]
    sentences = round(len(usable) / len(ours))
    order = usable[np.argsort(shards.lengths[usable].max(axis=1), kind="stable")]
    plain = [order[i : i + sentences] for i in range(0, len(order), sentences)]
    ids, rows_of = _map(pairs, vocabularies, folder), TrainingPairs([shards], multiple)
    tokens = int(shards.lengths[usable, 1].astype(np.int64).sum())
    by_hand = [batch.tolist() for batch in plain]
    for name, batches, share, load in (
        ("seq2seq", ours, padding_share(shards.lengths, ours, multiple),
         lambda: islice(DataLoader(rows_of, sampler=sampler, batch_size=None), len(ours))),
        ("plain loader", plain, padding_share(shards.lengths, plain),
         lambda: DataLoader(ids, batch_sampler=by_hand, collate_fn=_collate)),
    ):  # fmt: skip
        rate = round(tokens / seconds(partial(drained, load)))
        what = {"what": "load an epoch", "by": name, "target_tokens_per_second": rate}
        yield what | {"batches": len(batches), "padding_share": round(share, 4)}


def drained(load: Callable[[], Iterable[Batch]]) -> None:
    """Take all batches of a loader."""
    for _ in load():
        pass


def _tokenise(pairs: list[Pair], vocabularies: Vocabularies, path: Path) -> None:
    fresh = pickle.loads(pickle.dumps(vocabularies))  # begins with an empty cache of words
    sources, targets = zip(*pairs, strict=True)
    ids = (fresh.source.encode(list(sources)), fresh.target.encode(list(targets)))
    write_table(path, ids_table(*ids, max(fresh.sizes)), {})


def _map(pairs: list[Pair], vocabularies: Vocabularies, folder: Path) -> datasets.Dataset:
    """What most projects do: the library's tokenizer in a batched `map`."""
    columns = map(list, zip(*pairs, strict=True))
    texts = datasets.Dataset.from_dict(dict(zip(SIDES, columns, strict=True)))
    backends = dict(zip(SIDES, (vocabularies.source, vocabularies.target), strict=True))

    def encode(rows: dict[str, list[str]]) -> dict[str, list[list[int]]]:
        return {
            side: [found.ids for found in tokenizer.backend.encode_batch_fast(rows[side])]
            for side, tokenizer in backends.items()
        }

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
    return Batch(source, target_in, padded_labels, sum(map(len, sources)), sum(map(len, labels)))
