"""Measure how fast text becomes batches: preparation, start of training, loading.

    benchmark.py data data=files data.path=FOLDER copies=8      each stage, then loading an epoch
    benchmark.py data ... prepare.engine=ray                    the same by tasks of Ray
"""

from __future__ import annotations

import itertools
import json
import os
import re
import tempfile
import threading
import time
from dataclasses import replace
from itertools import islice
from pathlib import Path

import torch

from benchmarks.settings import DataBenchmarkConfig
from seq2seq.config import DataConfig
from seq2seq.data.datamodule import TranslationData
from seq2seq.data.engines import engine_of
from seq2seq.data.pipeline import prepare
from seq2seq.data.sources import find_sources

MAX_LENGTH = 256  # tokens of a sentence; longer ones are left out
SEED = 1


def benchmark_data(config: DataBenchmarkConfig) -> None:
    """Run `scripts/benchmark.py data`: print one JSON line for each measurement."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        data = replace(_multiplied(config, Path(folder)), cache=f"{folder}/cache", num_workers=0)
        started = time.perf_counter()
        with Memory() as memory:
            engine = engine_of(config.prepare, data.processes)
            prepared = prepare(data, config.cleaning, config.tokenizer, engine=engine)
        seconds = time.perf_counter() - started
        report = prepared.report
        for stage, took in report.seconds.items():
            _say(stage, seconds=took, pairs_per_second=round(report.read / took))
        _say(
            "prepare",
            seconds=round(seconds, 1),
            pairs_per_second=round(report.read / seconds),
            peak_memory_mib=memory.peak,
            disk_mib=_size(prepared.folder.parent),
        )
        _measure_start(config, data)


def _say(what: str, **figures: float) -> None:
    print(json.dumps({"what": what, **figures}), flush=True)


def _multiplied(config: DataBenchmarkConfig, folder: Path) -> DataConfig:
    """Write copies of the corpus; a mark on each line makes the sentences of each copy differ."""
    if config.copies == 1:
        return config.data
    (folder / "text").mkdir()
    for copy in range(config.copies):
        mark = f" {copy}" if copy else ""
        with (folder / "text" / f"train-{copy:03d}.tsv").open("w", encoding="utf-8") as file:
            for source in find_sources(config.data, "train"):
                for sides in source.pairs():
                    file.write("\t".join(" ".join(s.split()) + mark for s in sides) + "\n")
    return replace(
        config.data, path=f"{folder}/text", train="train", val=None, test=None, hub=None, urls=[],
        where={}, source_column="0", target_column="1", members={}, weights={},
    )  # fmt: skip


def _measure_start(config: DataBenchmarkConfig, data: DataConfig) -> None:
    """Measure how long training waits for its first batch, and how fast an epoch loads."""
    with Memory() as memory:
        started = time.perf_counter()
        settings = data, config.cleaning, config.tokenizer, MAX_LENGTH, SEED
        loaded = TranslationData(*settings, val_pairs=9, val_on_train=True)
        loaded.prepare()
        opened = time.perf_counter() - started
        loader = iter(loaded.train_dataloader())
        next(loader)
        first = time.perf_counter() - started
    _say("start", pairs=len(loaded.shards[0]), seconds_to_open=round(opened, 2),
         seconds_to_first_batch=round(first, 2), peak_memory_mib=memory.peak)  # fmt: skip
    number, tokens = loaded.epoch()
    started, real, positions = time.perf_counter(), 0, 0
    for batch in islice(loaded.train_dataloader(), number):
        real += batch.source_tokens + batch.target_tokens
        positions += batch.source.numel() + batch.labels.numel()
    seconds = time.perf_counter() - started
    _say("load an epoch", target_tokens_per_second=round(tokens / seconds), batches=number,
         padding_share=round(1 - real / positions, 4))  # fmt: skip


class Memory:
    """Measures the peak memory of this process and its children while a `with` block runs.

    Attributes:
        peak: proportional set size in MiB, which counts memory shared by several processes once.
    """

    peak = 0

    def __enter__(self) -> Memory:
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        ended = False
        while not ended:
            ended = self._done.wait(0.5)
            self.peak = max(self.peak, _proportional(Path("/proc/self")) >> 10)


def _proportional(process: Path) -> int:
    """Return the proportional set size of a process and its descendants in KiB; 0 if it ended."""
    try:
        memory = (process / "smaps_rollup").read_text()
        lists = [children.read_text().split() for children in process.glob("task/*/children")]
    except OSError:
        return 0
    own = sum(map(int, re.findall(r"^Pss:\s*(\d+)", memory, re.MULTILINE)))
    return own + sum(_proportional(Path("/proc") / child) for child in itertools.chain(*lists))


def _size(folder: Path) -> int:
    """Return the size of all files of a folder in MiB."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) >> 20
