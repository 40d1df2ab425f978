"""How fast a model translates on this machine, and where the time of a batch goes.

Random weights and random sources, with outputs of a fixed length, so that all that is compared
does the same work.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from benchmarks.measuring import Line, print_medians
from benchmarks.settings import DecodeBenchmarkConfig
from seq2seq.config import DecodeConfig
from seq2seq.data.tokenizer import EOS
from seq2seq.decoding.cuda_graph import graph_step
from seq2seq.decoding.request import Request
from seq2seq.decoding.search import search
from seq2seq.decoding.step import ModelStep
from seq2seq.inference.engines.torch import choose_device, choose_precision, prepared
from seq2seq.malloc import keep_freed_memory
from seq2seq.model.build import build_model
from seq2seq.model.translation_model import DecodeState
from seq2seq.training.hardware import peak_memory

# What is left of a batch is the search itself.
STAGES = ("encode", "decoder", "projection", "reorder")
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
    step = TimedStep(make_step(prepared(model, setting.precision)), device)
    rng = np.random.default_rng(config.seed)
    sentences, seconds = setting.batch * setting.workers, []
    for call in range(config.warmup_calls + config.calls):
        if call == config.warmup_calls:
            step.seconds = dict.fromkeys(STAGES, 0.0)
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
    seconds = seconds[config.warmup_calls :]
    per_second = sentences / statistics.median(seconds)
    shares = {name: s / sum(seconds) / setting.workers for name, s in step.seconds.items()}
    shares["search"] = 1 - sum(shares.values())
    return {
        "model": config.model.name,
        "vocab_size": config.vocab_size,
        "threads_per_worker": 1 if setting.workers > 1 else torch.get_num_threads(),
        "output_tokens": config.length,
        "sentences_per_second": round(per_second, 2),
        "tokens_per_second": round(per_second * config.length, 1),
        **{f"{name}_share": round(share, 3) for name, share in shares.items()},
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


class TimedStep:
    """A step model that adds up how long its parts take, over all workers.

    Args:
        model: does the work.
        device: where it works; a GPU is waited for after each part.
    """

    def __init__(self, model: ModelStep, device: torch.device):
        self.model, self.device = model, device
        self.seconds = dict.fromkeys(STAGES, 0.0)

    def timed(self, stage: str, run: Callable[..., Any], *arguments: Any) -> Any:
        started = time.perf_counter()
        found = run(*arguments)
        if self.device.type == "cuda":
            torch.cuda.synchronize()
        self.seconds[stage] += time.perf_counter() - started
        return found

    def start(self, source_BS: Tensor) -> TimedState:
        return TimedState(self.timed("encode", self.model.start, source_BS), self)

    def step(self, tokens_R: Tensor, state: TimedState) -> Any:
        hidden_RD = self.timed("decoder", self.model.hidden, tokens_R, state.held)
        return self.timed("projection", self.model.log_probs, hidden_RD)


class TimedState:
    """The state of a timed step model; all that a search asks of it is a reordering."""

    def __init__(self, held: DecodeState, step: TimedStep):
        self.held, self.step = held, step

    def reorder(self, rows: Tensor) -> None:
        self.step.timed("reorder", self.held.reorder, rows)

    def keep(self, sentences: Tensor, rows: Tensor) -> None:
        self.step.timed("reorder", self.held.keep, sentences, rows)
