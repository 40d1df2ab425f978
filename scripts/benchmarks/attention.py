"""Attention variants side by side: parameters, speed, sizes of caches, memory."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from benchmarks.measuring import Line, in_own_process, median_seconds
from benchmarks.settings import CompareConfig
from seq2seq.config import KERNELS, ModelConfig, OptimConfig, RecurrentConfig, TransformerConfig
from seq2seq.cores import keep_freed_memory
from seq2seq.data.collate import Batch, collate
from seq2seq.data.tokenizer import EOS
from seq2seq.decoding.step import ModelStep
from seq2seq.inference.engines.torch import choose_device
from seq2seq.model import build_model
from seq2seq.model.translation_model import TranslationModel
from seq2seq.training.hardware import describe_device, peak_memory
from seq2seq.training.loss import translation_loss
from seq2seq.training.optim import make_optimizer

log = logging.getLogger(__name__)

STEPS = 32  # of decoding; a multiple of the positions by which the cache grows


def compare_attention(config: CompareConfig) -> None:
    """Run `scripts/compare_attention.py`: print a JSON line for each model.

    Raises:
        UserError: memory runs out.
    """
    device = choose_device(config.device).type
    models = dict(variants(config))
    log.info("device      %s", describe_device("gpu" if device == "cuda" else "cpu"))
    for number, ((name, kernel), model) in enumerate(models.items(), 1):
        log.info("measuring   %d of %d: %s", number, len(models), name)
        measured = in_own_process(
            *(measure, model, config, device), name=name, remedy="lower sentences= or length="
        )
        print(json.dumps({"variant": name, "kernel": kernel, **measured}), flush=True)


def variants(config: CompareConfig) -> Iterator[tuple[tuple[str, str], ModelConfig]]:
    """Multi-head, grouped 4 and 2, multi-query, by both kernels; additive attention."""
    sizes = config.model
    assert isinstance(sizes, TransformerConfig)
    names = {4: "grouped 4", 2: "grouped 2", 1: "multi-query"} | {sizes.n_heads: "multi-head"}
    for kernel in KERNELS:
        for kv_heads in sorted((n for n in names if sizes.n_heads % n == 0), reverse=True):
            model = replace(sizes, n_kv_heads=kv_heads, kernel=kernel)
            yield (names[kv_heads], kernel), model
    recurrent = RecurrentConfig(
        d_model=sizes.d_model,
        d_attention=sizes.d_model,
        tie_embeddings=sizes.tie_embeddings,
        dropout=sizes.dropout,
        max_length=sizes.max_length,
    )
    yield ("additive RNN", "-"), recurrent


def measure(model_config: ModelConfig, config: CompareConfig, device: str) -> Line:
    """Speed and memory of an untrained model on sentences of random tokens, all of one length.

    Tokens are real target tokens in whole training steps, and output tokens in greedy search on
    the cache (medians); memory is the peak beyond what stood there before (on a GPU: all).
    """
    keep_freed_memory()
    torch.manual_seed(0)
    longest = max(model_config.max_length, config.length, STEPS)
    model = build_model(replace(model_config, max_length=longest), config.vocab_size).to(device)
    shape = (config.sentences, config.length - 1)
    source, target = (torch.randint(EOS + 1, config.vocab_size, shape).tolist() for _ in range(2))
    batch = collate(source, target).to(torch.device(device))
    before = peak_memory(device) if device == "cpu" else 0
    with torch.inference_mode():
        decode = _decode(model.eval(), batch, config.repeats, device)
    decode_memory = peak_memory(device) - before
    train = _train_tokens_per_second(model.train(), batch, config.repeats, device)
    return {
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "train_tokens_per_second": round(train),
        **decode,
        "train_memory_mib": round((peak_memory(device) - before) / 2**20, 1),
        "decode_memory_mib": round(decode_memory / 2**20, 1),
    }


def _train_tokens_per_second(
    model: TranslationModel, batch: Batch, repeats: int, device: str
) -> float:
    optimizer = make_optimizer(model, OptimConfig(), model.config.d_model)

    def step() -> None:
        with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
            hidden = model(batch.source, batch.source_real, batch.target_in)
            loss = translation_loss(model, hidden, batch.labels, smoothing=0.1).smoothed
        (loss / batch.target_tokens).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        optimizer.zero_grad()

    return batch.target_tokens / median_seconds(step, repeats, device)


def _decode(model: TranslationModel, batch: Batch, repeats: int, device: str) -> Line:
    """Greedy search, whatever the tokens are."""
    search, sentences = ModelStep(model), batch.source.size(0)

    def decode(state: Any) -> None:
        tokens_R: Tensor = batch.target_in[:, 0]
        for _ in range(STEPS):
            tokens_R = search.step(tokens_R, state).argmax(dim=-1)

    state: Any = search.start(batch.source)
    source_bytes = state.bytes
    decode(state)
    seconds = median_seconds(lambda: decode(search.start(batch.source)), repeats, device)
    return {
        "decode_tokens_per_second": round(sentences * STEPS / seconds),
        "cache_bytes_per_token": round((state.bytes - source_bytes) / STEPS / sentences),
        "source_bytes_per_sentence": round(source_bytes / sentences),
    }
