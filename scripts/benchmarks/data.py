"""How fast text becomes batches: preparing a corpus in one process, then loading an epoch."""

from __future__ import annotations

import json
import os
import tempfile
import time
from dataclasses import replace
from itertools import islice

import torch

from seq2seq.config import PrepareConfig
from seq2seq.data.datamodule import TranslationData

MAX_LENGTH = 256  # longest sentence in tokens; others are left out


def benchmark_data(config: PrepareConfig) -> None:
    """Run `scripts/benchmark.py data`: print one JSON line for each stage.

    Raises:
        DataError: the corpus cannot be read, or nothing of it is usable.
    """
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as cache:
        fresh = replace(config.data, cache=cache, processes=1, num_workers=0)
        data = TranslationData(fresh, config.cleaning, config.tokenizer, MAX_LENGTH, seed=1)
        data.prepare()
        assert data.prepared is not None
        report = data.prepared.report
        for stage, seconds in report.seconds.items():
            line = {"what": stage, "pairs_per_second": round(report.read / seconds)}
            print(json.dumps(line), flush=True)
        number, tokens = data.epoch()
        loader, started = iter(data.train_dataloader()), time.perf_counter()
        real = positions = 0
        for batch in islice(loader, number):
            real += batch.source_tokens + batch.target_tokens
            positions += batch.source.numel() + batch.labels.numel()
        seconds = time.perf_counter() - started
        line = {
            "what": "load an epoch",
            "target_tokens_per_second": round(tokens / seconds),
            "batches": number,
            "padding_share": round(1 - real / positions, 4),
        }
        print(json.dumps(line), flush=True)
