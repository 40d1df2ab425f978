"""Measure how fast a model translates on this machine.

Weights and sources are random, and outputs have a fixed length, so that all measurements do the
same amount of work.
"""

from __future__ import annotations

import json
import statistics
import time

import numpy as np
import torch

from benchmarks.settings import DecodeBenchmarkConfig
from seq2seq.config import DecodeConfig
from seq2seq.cores import keep_freed_memory
from seq2seq.data.tokenizer import EOS
from seq2seq.decoding.cuda_graph import graph_step
from seq2seq.decoding.request import Request
from seq2seq.decoding.search import search
from seq2seq.decoding.step import ModelStep
from seq2seq.inference.engines.torch import cast_for_inference, choose_device, choose_precision
from seq2seq.model.build import build_model
from seq2seq.training.hardware import peak_memory

SHORTEST, LONGEST = 8, 24  # tokens of the sources


def benchmark_decode(config: DecodeBenchmarkConfig) -> None:
    """Run `scripts/benchmark.py decode`: translate some batches, and print one JSON line.

    Each call translates one batch per worker; the speed is that of the median call.
    """
    keep_freed_memory()
    device = choose_device(config.device)
    precision = choose_precision(config.precision, device)
    torch.manual_seed(config.seed)
    model = build_model(config.model, config.vocab_size).to(device).eval()
    make_step = graph_step if config.cuda_graphs else ModelStep
    step = make_step(cast_for_inference(model, precision))
    rng = np.random.default_rng(config.seed)
    sentences, seconds = config.batch * config.workers, []
    for _ in range(config.warmup_calls + config.calls):
        # The search limits batches by tokens; of random sources, a batch has about `config.batch`.
        requests = [
            Request(rng.integers(EOS + 1, config.vocab_size, length).tolist())
            for length in rng.integers(SHORTEST, LONGEST, sentences, endpoint=True)
        ]
        started = time.perf_counter()
        search(
            step,
            requests,
            fixed_length(config),
            max_length=config.model.max_length,
            device=device,
            workers=config.workers,
        )
        seconds.append(time.perf_counter() - started)
    per_second = sentences / statistics.median(seconds[config.warmup_calls :])
    line = {
        "model": config.model.name,
        "vocab_size": config.vocab_size,
        "precision": precision,
        "beam": config.beam,
        "batch": config.batch,
        "workers": config.workers,
        "cuda_graphs": config.cuda_graphs,
        "threads_per_worker": 1 if config.workers > 1 else torch.get_num_threads(),
        "output_tokens": config.length,
        "sentences_per_second": round(per_second, 2),
        "tokens_per_second": round(per_second * config.length, 1),
        "peak_memory_mib": round(peak_memory(device.type) / 2**20),
    }
    print(json.dumps(line), flush=True)


def fixed_length(config: DecodeBenchmarkConfig) -> DecodeConfig:
    """Make settings under which each output has `length` tokens, and only the last may end it."""
    return DecodeConfig(
        beam=config.beam,
        min_length=config.length,
        max_ratio=0.0,
        max_extra=config.length,
        batch_tokens=config.batch * (LONGEST + 1) * config.beam,
    )
