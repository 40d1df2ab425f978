"""Speed and memory of whole models, measured alike whatever they are made of."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from seq2seq.config import ModelConfig, OptimConfig
from seq2seq.data.collate import Batch, collate
from seq2seq.data.tokenizer import EOS
from seq2seq.decoding.step import ModelStep
from seq2seq.malloc import keep_freed_memory
from seq2seq.model.build import build_model
from seq2seq.model.kv_cache import BLOCK
from seq2seq.model.translation_model import TranslationModel
from seq2seq.training.hardware import peak_memory
from seq2seq.training.loss import translation_loss
from seq2seq.training.optim import make_optimizer

WARM_UP = 2  # steps before the measured ones


@dataclass
class Work:
    """What is measured: batches of random tokens, as long as sentences are.

    Attributes:
        sentences: sentences in a batch.
        length: longest sentence in tokens; the shortest is three quarters of it.
        repeats: training steps, and decoded batches, that are measured; the median counts.
        vocab_sizes: subwords of the source and of the target.
        device: cpu or cuda. On cuda, training uses bf16 autocast.
    """

    sentences: int
    length: int
    repeats: int
    vocab_sizes: tuple[int, int]
    device: str


@dataclass
class Measured:
    """What was measured of one model.

    Attributes:
        parameters: trained numbers.
        train_tokens_per_second: real target tokens, in whole training steps (median).
        decode_tokens_per_second: output tokens in greedy search on the cache (median).
        cache_bytes_per_token: growth of the decoder's memory for each further output token.
        source_bytes_per_sentence: what the decoder keeps of a source of `Work.length` tokens.
        train_memory_mib: peak while training, beyond what stood there before (on a GPU: all).
        decode_memory_mib: the same while decoding.
    """

    parameters: int
    train_tokens_per_second: float
    decode_tokens_per_second: float
    cache_bytes_per_token: float
    source_bytes_per_sentence: float
    train_memory_mib: float
    decode_memory_mib: float


def measure_model(config: ModelConfig, work: Work) -> Measured:
    """Train and decode with an untrained model; run it in a process of its own.

    Peak memory of a process never falls, so a model measured after another would show the
    other's.
    """
    keep_freed_memory()
    torch.manual_seed(0)
    config = replace(config, max_length=max(config.max_length, work.length, 2 * BLOCK))
    model = build_model(config, *work.vocab_sizes).to(work.device)
    batch = _random_batch(work)
    before = peak_memory(work.device) if work.device == "cpu" else 0
    with torch.inference_mode():
        decode = _decode(model.eval(), batch, work)
    decode_memory = peak_memory(work.device) - before
    train = _train(model.train(), batch, work)
    return Measured(
        parameters=sum(parameter.numel() for parameter in model.parameters()),
        train_tokens_per_second=train,
        train_memory_mib=(peak_memory(work.device) - before) / 2**20,
        decode_memory_mib=decode_memory / 2**20,
        **decode,
    )


def _random_batch(work: Work) -> Batch:
    draw = random.Random(0)

    def sentences(vocab_size: int) -> list[list[int]]:
        lengths = [draw.randint(3 * work.length // 4, work.length) for _ in range(work.sentences)]
        lengths[0] = work.length
        return [draw.choices(range(EOS + 1, vocab_size), k=n - 1) for n in lengths]

    source, target = map(sentences, work.vocab_sizes)
    return collate(source, target).to(torch.device(work.device))


def _train(model: TranslationModel, batch: Batch, work: Work) -> float:
    """Target tokens per second of forward, backward and update."""
    optimizer = make_optimizer(model, OptimConfig(), model.config.d_model)

    def step() -> None:
        with torch.autocast(work.device, torch.bfloat16, enabled=work.device == "cuda"):
            hidden = model(batch.source, batch.source_real, batch.target_in)
            loss = translation_loss(model, hidden, batch.labels, smoothing=0.1).smoothed
        (loss / batch.target_tokens).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        optimizer.zero_grad()

    return batch.target_tokens / median_seconds(step, work.repeats, work.device)


def _decode(model: TranslationModel, batch: Batch, work: Work) -> dict[str, float]:
    """Greedy search over two blocks of the cache, whatever the tokens are."""
    search = ModelStep(model)
    state: Any = search.start(batch.source)
    start_bytes = state.bytes

    def steps(count: int, tokens_R: Tensor) -> Tensor:
        for _ in range(count):
            tokens_R = search.step(tokens_R, state).argmax(dim=-1)
        return tokens_R

    tokens_R = steps(BLOCK, batch.target_in[:, 0])
    first = state.bytes
    steps(BLOCK, tokens_R)
    grown = (state.bytes - first) / BLOCK / work.sentences

    def search_once() -> None:
        nonlocal state
        state = search.start(batch.source)
        steps(BLOCK, batch.target_in[:, 0])

    seconds = median_seconds(search_once, work.repeats, work.device)
    return {
        "decode_tokens_per_second": work.sentences * BLOCK / seconds,
        "cache_bytes_per_token": grown,
        "source_bytes_per_sentence": start_bytes / work.sentences,
    }


def median_seconds(action: Callable[[], object], repeats: int, device: str) -> float:
    """Median time of an action after a warm-up."""
    times = []
    for _ in range(WARM_UP + repeats):
        started = time.perf_counter()
        action()
        if device == "cuda":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - started)
    return statistics.median(times[WARM_UP:])
