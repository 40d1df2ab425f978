"""How fast a model translates on this machine, and where the time of a batch goes.

Random weights and random sources, with outputs of a fixed length, so that all that is compared
does the same work.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from benchmarks.measuring import described, in_own_process, in_turns, seconds_of
from benchmarks.settings import DecodeBenchmarkConfig
from seq2seq.config import DecodeConfig
from seq2seq.data.tokenizer import EOS
from seq2seq.decoding.cuda_graph import graph_step
from seq2seq.decoding.request import Request
from seq2seq.decoding.search import search
from seq2seq.decoding.step import ModelStep
from seq2seq.inference.device import choose_device
from seq2seq.inference.precision import choose_precision, prepared
from seq2seq.malloc import keep_freed_memory
from seq2seq.model.build import build_model
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


@dataclass
class Measured:
    """What one process found.

    Attributes:
        seconds: of each call, which translates `batch` sentences for each worker.
        stages: seconds of all calls together, by `STAGES`, summed over the workers.
        peak_memory: bytes; on a CPU of the whole process, on a GPU of torch.
    """

    seconds: list[float]
    stages: dict[str, float]
    peak_memory: int


def benchmark_decode(config: DecodeBenchmarkConfig) -> None:
    """Run `scripts/benchmark.py decode`: print one JSON line for each setting.

    Raises:
        UserError: a setting cannot be used here.
    """
    device = choose_device(config.device)
    precisions = [choose_precision(name, device) for name in config.precisions]
    lists = (precisions, config.beams, config.batches, config.workers, config.cuda_graphs)

    def one(setting: Setting) -> Measured:
        name, remedy = f"decoding with {described(setting)}", "lower batches= or beams="
        return in_own_process(measure, config, setting, name=name, remedy=remedy)

    settings = [Setting(*values) for values in product(*lists)]
    for setting, measured in in_turns(settings, config.repeats, one).items():
        print(json.dumps(summary(config, setting, measured)), flush=True)


def measure(config: DecodeBenchmarkConfig, setting: Setting) -> Measured:
    """Translate some batches; run it in a process of its own."""
    keep_freed_memory()
    device = choose_device(config.device)
    torch.manual_seed(config.seed)
    model = build_model(config.model, config.vocab_size).to(device).eval()
    step = graph_step if setting.cuda_graphs else ModelStep
    timed = TimedStep(step(prepared(model, setting.precision)), device)
    rng = np.random.default_rng(config.seed)
    translate = partial(
        search,
        timed,
        config=fixed_length(setting, config.length),
        max_length=config.model.max_length,
        device=device,
        workers=setting.workers,
    )
    sentences = setting.batch * setting.workers

    def call() -> float:
        requests = [
            Request(rng.integers(EOS + 1, config.vocab_size, length).tolist())
            for length in rng.integers(SHORTEST, LONGEST, sentences, endpoint=True)
        ]
        # Sources are random, so a budget of tokens cuts batches of about that many sentences.
        return seconds_of(lambda: translate(requests))

    for _ in range(config.warmup_calls):
        call()
    timed.seconds = dict.fromkeys(STAGES, 0.0)
    seconds = [call() for _ in range(config.calls)]
    return Measured(seconds, timed.seconds, peak_memory(device.type))


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
    """A step model that adds up how long its parts take.

    Args:
        model: does the work.
        device: where it works; a GPU is waited for after each part.
    """

    def __init__(self, model: Any, device: torch.device):
        self.model, self.device = model, device
        self.seconds = dict.fromkeys(STAGES, 0.0)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        started = time.perf_counter()
        yield
        if self.device.type == "cuda":
            torch.cuda.synchronize()
        self.seconds[name] += time.perf_counter() - started

    def start(self, source_BS: Tensor) -> TimedState:
        with self.stage("encode"):
            return TimedState(self.model.start(source_BS), self)

    def step(self, tokens_R: Tensor, state: Any) -> Tensor:
        with self.stage("decoder"):
            hidden_RD = self.model.hidden(tokens_R, state.state)
        with self.stage("projection"):
            log_probs_RV: Tensor = self.model.log_probs(hidden_RD)
        return log_probs_RV


class TimedState:
    """The state of a timed step model; all that a search asks of it is a reordering."""

    def __init__(self, state: Any, step: TimedStep):
        self.state, self.step = state, step

    def __getattr__(self, name: str) -> Callable[..., None]:
        def timed(*arguments: Tensor) -> None:
            with self.step.stage("reorder"):
                getattr(self.state, name)(*arguments)

        return timed


def summary(
    config: DecodeBenchmarkConfig, setting: Setting, measured: list[Measured]
) -> dict[str, Any]:
    """One line of the output."""
    seconds = np.array([second for one in measured for second in one.seconds])
    sentences = setting.batch * setting.workers
    whole = float(seconds.sum()) * setting.workers
    stages = {name: sum(one.stages[name] for one in measured) / whole for name in STAGES}
    slow, median, fast = np.quantile(sentences / seconds, [0.25, 0.5, 0.75]).tolist()
    return {
        "model": config.model.name,
        "vocab_size": config.vocab_size,
        **setting._asdict(),
        "threads_per_worker": 1 if setting.workers > 1 else torch.get_num_threads(),
        "output_tokens": config.length,
        "sentences_per_second": round(median, 2),
        "sentences_per_second_p25": round(slow, 2),
        "sentences_per_second_p75": round(fast, 2),
        "tokens_per_second": round(median * config.length, 1),
        "call_seconds_p50": round(float(np.quantile(seconds, 0.5)), 4),
        "call_seconds_p95": round(float(np.quantile(seconds, 0.95)), 4),
        **{f"{name}_share": round(share, 3) for name, share in stages.items()},
        "search_share": round(1 - sum(stages.values()), 3),
        "peak_memory_mib": round(max(one.peak_memory for one in measured) / 2**20),
    }
