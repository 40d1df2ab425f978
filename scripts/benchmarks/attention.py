"""Attention variants side by side: a table, printed and as a CSV file."""

from __future__ import annotations

import csv
import random
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from tqdm import tqdm

from benchmarks.measuring import in_own_process, median_seconds
from benchmarks.settings import CompareConfig
from seq2seq.config import KERNELS, ModelConfig, OptimConfig, RecurrentConfig, TransformerConfig
from seq2seq.data.collate import Batch, collate
from seq2seq.data.tokenizer import EOS
from seq2seq.decoding.step import ModelStep
from seq2seq.errors import RunError
from seq2seq.inference.bundle_folder import bundle_folder, read_config
from seq2seq.inference.device import choose_device
from seq2seq.malloc import keep_freed_memory
from seq2seq.model.build import build_model
from seq2seq.model.translation_model import TranslationModel
from seq2seq.training.hardware import describe_device, peak_memory
from seq2seq.training.loss import translation_loss
from seq2seq.training.optim import make_optimizer

Row = dict[str, Any]

STEPS = 32  # of decoding; a multiple of the positions by which the cache grows


class Compared(NamedTuple):
    """A model that is measured; of a trained one also the BLEU of its validation."""

    name: str
    model: ModelConfig
    vocab_sizes: tuple[int, int]
    trained: Row | None = None


def compare_attention(config: CompareConfig) -> None:
    """Run `scripts/compare_attention.py`: print a table and write it.

    Raises:
        UserError: a run cannot be read, or nothing can be written.
    """
    device = choose_device(config.device).type
    runs = [config.runs] if isinstance(config.runs, str) else config.runs
    models = trained_models([Path(run) for run in runs]) if runs else list(variants(config))
    folder = _output_folder(config.output)
    print(f"{describe_device('gpu' if device == 'cuda' else 'cpu')}, torch {torch.__version__}")
    bar = tqdm(models, desc="models", unit="model", disable=None)
    _write(folder / "models.csv", [row_of(model, config, device) for model in bar])


def _output_folder(output: str | None) -> Path:
    stamp = datetime.now().strftime("%Y%m%d-%H%M%S")
    folder = Path("runs") / f"attention-{stamp}" if output is None else Path(output)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise RunError(f"output={folder} already holds files: choose another folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunError(f"cannot write to output={folder}: {error}. Choose another") from error
    return folder


def variants(config: CompareConfig) -> Iterator[Compared]:
    """Multi-head, grouped 4 and 2, multi-query, by both kernels; additive attention."""
    sizes, vocab_sizes = config.model, (config.vocab_size, config.vocab_size)
    assert isinstance(sizes, TransformerConfig)
    names = {4: "grouped 4", 2: "grouped 2", 1: "multi-query"} | {sizes.n_heads: "multi-head"}
    for kernel in KERNELS:
        for kv_heads in sorted((n for n in names if sizes.n_heads % n == 0), reverse=True):
            model = replace(sizes, n_kv_heads=kv_heads, kernel=kernel)
            yield Compared(names[kv_heads], model, vocab_sizes)
    recurrent = RecurrentConfig(
        d_model=sizes.d_model,
        d_attention=sizes.d_model,
        tie_embeddings=sizes.tie_embeddings,
        dropout=sizes.dropout,
        max_length=sizes.max_length,
    )
    yield Compared("additive RNN", recurrent, vocab_sizes)


def trained_models(runs: list[Path]) -> list[Compared]:
    """The models of trained runs, with the best BLEU of their validations."""
    folders = [bundle_folder(run) for run in runs]
    homes = [folder.parent if folder.name == "bundle" else folder for folder in folders]
    alike = len({home.name for home in homes}) < len(homes)
    models = []
    for home, folder in zip(homes, folders, strict=True):
        config = read_config(folder / "config.json")
        try:
            data = config.training.get("config", {}).get("data", {})
            bleu = round(float(config.training["scores"]["BLEU"]), 2)
            scored = {"bleu": bleu, "bleu_of": f"{data.get('name', 'unknown data')} validation"}
        except (KeyError, TypeError, AttributeError) as error:
            raise RunError(
                f"cannot read the scores of {home} ({error!r}): its bundle is damaged or not ours; "
                "copy it again"
            ) from error
        name = str(home) if alike else home.name
        models.append(Compared(name, config.model, config.vocab_sizes, scored))
    return models


def row_of(compared: Compared, config: CompareConfig, device: str) -> Row:
    """A line of the table, measured in a process of its own."""
    measured = in_own_process(
        *(measure_model, compared.model, compared.vocab_sizes, config, device),
        name=f"measuring {compared.name}",
        remedy="lower sentences= or length=",
    )
    row: Row = {"variant": compared.name, "kernel": getattr(compared.model, "kernel", "-")}
    row |= {name: round(value, 1) for name, value in measured.items()}
    return row | (compared.trained or {})


def measure_model(
    model_config: ModelConfig, vocab_sizes: tuple[int, int], config: CompareConfig, device: str
) -> dict[str, float]:
    """Speed and memory of an untrained model on random tokens.

    Tokens are real target tokens in whole training steps, and output tokens in greedy search on
    the cache (medians); memory is the peak beyond what stood there before (on a GPU: all).
    """
    keep_freed_memory()
    torch.manual_seed(0)
    longest = max(model_config.max_length, config.length, 2 * STEPS)
    model = build_model(replace(model_config, max_length=longest), *vocab_sizes).to(device)
    batch = random_batch(vocab_sizes, config).to(torch.device(device))
    before = peak_memory(device) if device == "cpu" else 0
    with torch.inference_mode():
        decode = _decode(model.eval(), batch, config, device)
    decode_memory = peak_memory(device) - before
    train = _train_tokens_per_second(model.train(), batch, config, device)
    return {
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "train_tokens_per_second": train,
        **decode,
        "train_memory_mib": (peak_memory(device) - before) / 2**20,
        "decode_memory_mib": decode_memory / 2**20,
    }


def random_batch(vocab_sizes: tuple[int, int], config: CompareConfig) -> Batch:
    """Sentences of random tokens; the shortest has three quarters of the longest."""
    draw, longest = random.Random(0), config.length

    def sentences(vocab_size: int) -> list[list[int]]:
        lengths = [draw.randint(3 * longest // 4, longest) for _ in range(config.sentences)]
        lengths[0] = longest
        return [draw.choices(range(EOS + 1, vocab_size), k=n - 1) for n in lengths]

    source, target = map(sentences, vocab_sizes)
    return collate(source, target)


def _train_tokens_per_second(
    model: TranslationModel, batch: Batch, config: CompareConfig, device: str
) -> float:
    optimizer = make_optimizer(model, OptimConfig(), model.config.d_model)

    def step() -> None:
        with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
            hidden = model(batch.source, batch.source_real, batch.target_in)
            loss = translation_loss(model, hidden, batch.labels, smoothing=0.1).smoothed
        (loss / batch.target_tokens).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        optimizer.zero_grad()

    return batch.target_tokens / median_seconds(step, config.repeats, device)


def _decode(
    model: TranslationModel, batch: Batch, config: CompareConfig, device: str
) -> dict[str, float]:
    """Greedy search, whatever the tokens are; the cache grows by the second half of it."""
    search = ModelStep(model)

    def steps(state: Any, tokens_R: Tensor) -> Tensor:
        for _ in range(STEPS):
            tokens_R = search.step(tokens_R, state).argmax(dim=-1)
        return tokens_R

    state: Any = search.start(batch.source)
    source_bytes = state.bytes
    tokens_R = steps(state, batch.target_in[:, 0])
    first_bytes = state.bytes
    steps(state, tokens_R)
    seconds = median_seconds(
        lambda: steps(search.start(batch.source), batch.target_in[:, 0]), config.repeats, device
    )
    return {
        "decode_tokens_per_second": config.sentences * STEPS / seconds,
        "cache_bytes_per_token": (state.bytes - first_bytes) / STEPS / config.sentences,
        "source_bytes_per_sentence": source_bytes / config.sentences,
    }


def _write(file: Path, rows: list[Row]) -> None:
    """Print a table, and write it as CSV."""
    heads = [name.split("_") for name in rows[0]]  # in several lines where they are long
    depth = max(map(len, heads))
    lines = [[head[i] if i < len(head) else "" for head in heads] for i in range(depth)]
    lines += [[_cell(value) for value in row.values()] for row in rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    print()
    for first, *others in lines:
        cells = [text.rjust(width) for text, width in zip(others, widths[1:], strict=True)]
        print("  ".join([first.ljust(widths[0]), *cells]))
    with file.open("w", newline="", encoding="utf-8") as opened:
        writer = csv.DictWriter(opened, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    print(f"written to {file}")


def _cell(value: Any) -> str:
    if not isinstance(value, float):
        return f"{value:,}" if isinstance(value, int) else str(value)
    return f"{value:,.2f}" if value < 100 else f"{value:,.0f}"
