"""How fast a model translates on this machine.

Random weights and random sources, with outputs of a fixed length, so that all that is compared
does the same work.
"""

from __future__ import annotations

import statistics
import time
from functools import partial
from itertools import product
from typing import NamedTuple

import numpy as np
import torch

from benchmarks.measuring import Line, print_medians
from benchmarks.settings import DecodeBenchmarkConfig
from seq2seq.config import DecodeConfig
from seq2seq.cores import keep_freed_memory
from seq2seq.data.tokenizer import EOS
from seq2seq.decoding.cuda_graph import graph_step
from seq2seq.decoding.request import Request
from seq2seq.decoding.search import search
from seq2seq.decoding.step import ModelStep
from seq2seq.inference.engines.torch import choose_device, choose_precision, prepared
from seq2seq.model.build import build_model
from seq2seq.training.hardware import peak_memory

SHORTEST, LONGEST = 8, 24  # tokens of the sources


class Setting(NamedTuple):
    """One of the combinations that are compared."""

    precision: str
    beam: int
    batch: int
    workers: int
    cuda_graphs: bool = False


def benchmark_decode(config: DecodeBenchmarkConfig) -> None:
    """Run `scripts/benchmark.py decode`: print one JSON line for each setting.

    Raises:
        UserError: a setting cannot be used here.
    """
    device = choose_device(config.device)
    precisions = [choose_precision(name, device) for name in config.precisions]
    lists = (precisions, config.beams, config.batches, config.workers, config.cuda_graphs)
    settings = [Setting(*values) for values in product(*lists)]
    print_medians(
        settings, config.repeats, partial(measure, config), "lower batches= or beams="
    )


def measure(config: DecodeBenchmarkConfig, setting: Setting) -> Line:
    """Translate some batches, one for each worker in a call; speed is the median of the calls."""
    keep_freed_memory()
    device = choose_device(config.device)
    torch.manual_seed(config.seed)
    model = build_model(config.model, config.vocab_size).to(device).eval()
    make_step = graph_step if setting.cuda_graphs else ModelStep
    step = make_step(prepared(model, setting.precision))
    rng = np.random.default_rng(config.seed)
    sentences, seconds = setting.batch * setting.workers, []
    for _ in range(config.warmup_calls + config.calls):
        # Sources are random, so a budget of tokens cuts batches of about that many sentences.
        requests = [
            Request(rng.integers(EOS + 1, config.vocab_size, length).tolist())
            for length in rng.integers(SHORTEST, LONGEST, sentences, endpoint=True)
        ]
        started = time.perf_counter()
        search(
            step,
            requests,
            fixed_length(setting, config.length),
            max_length=config.model.max_length,
            device=device,
            workers=setting.workers,
        )
        seconds.append(time.perf_counter() - started)
    per_second = sentences / statistics.median(seconds[config.warmup_calls :])
    return {
        "model": config.model.name,
        "vocab_size": config.vocab_size,
        "threads_per_worker": 1 if setting.workers > 1 else torch.get_num_threads(),
        "output_tokens": config.length,
        "sentences_per_second": round(per_second, 2),
        "tokens_per_second": round(per_second * config.length, 1),
        "peak_memory_mib": round(peak_memory(device.type) / 2**20),
    }


def fixed_length(setting: Setting, length: int) -> DecodeConfig:
    """Settings under which each output has so many tokens: only the last may be an end token."""
    return DecodeConfig(
        beam=setting.beam,
        min_length=length,
        max_ratio=0.0,
        max_extra=length,
        batch_tokens=setting.batch * (LONGEST + 1) * setting.beam,
    )
