"""Attention variants side by side: a table, two CSV files and a figure."""

from __future__ import annotations

import csv
import json
import multiprocessing
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from seq2seq.benchmarks.attention_calls import measure_calls
from seq2seq.benchmarks.models import Work, measure_model
from seq2seq.benchmarks.settings import CompareConfig
from seq2seq.config import KERNELS, ModelConfig, RecurrentConfig, TransformerConfig
from seq2seq.errors import RunError
from seq2seq.evaluation.record import records_of
from seq2seq.inference.bundle_folder import BundleConfig, bundle_folder, read_config
from seq2seq.inference.device import choose_device
from seq2seq.training.hardware import describe_device

Row = dict[str, Any]

# What is drawn: column and title.
PANELS = (
    ("train_tokens_per_second", "training, target tokens/s"),
    ("decode_tokens_per_second", "greedy decoding, tokens/s"),
    ("cache_bytes_per_token", "cache, bytes per output token"),
    ("source_bytes_per_sentence", "source memory, bytes per sentence"),
    ("parameters", "parameters"),
    ("train_memory_mib", "peak memory in training, MiB"),
)


def compare_attention(config: CompareConfig) -> None:
    """Run `scripts/compare_attention.py`: print two tables, write them and a figure.

    Raises:
        UserError: a run cannot be read, or nothing can be written.
    """
    device = choose_device(config.device).type
    folder = _output_folder(config.output)
    runs = [config.runs] if isinstance(config.runs, str) else config.runs
    models = _of_runs([Path(run) for run in runs]) if runs else list(_variants(config))
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunError(f"cannot write to output={folder}: {error}. Choose another") from error
    bar = tqdm(models, desc="models", unit="model", disable=None)
    rows = [_measure(model, config, device) for model in bar]
    _write(folder / "models.csv", rows)
    _draw(rows, folder / "models.svg")
    print(f"{describe_device('gpu' if device == 'cuda' else 'cpu')}, torch {torch.__version__}\n")
    print(_table(rows))
    if config.calls:
        measured = measure_calls(device, config.repeats)
        calls = [asdict(times) for times in tqdm(measured, "calls", unit="case", disable=None)]
        _write(folder / "calls.csv", calls)
        print(f"\n{_table(calls)}")
    print(f"\nwritten to {folder}: {', '.join(sorted(file.name for file in folder.iterdir()))}")


def _output_folder(output: str | None) -> Path:
    stamp = datetime.now().strftime("%Y%m%d-%H%M%S")
    folder = Path("runs") / f"attention-{stamp}" if output is None else Path(output)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise RunError(f"output={folder} already holds files: choose another folder")
    return folder


@dataclass
class _Compared:
    """One line of the table before it is measured."""

    name: str
    model: ModelConfig
    vocab_sizes: tuple[int, int]
    bleu: float | None = None
    bleu_of: str | None = None


def _variants(config: CompareConfig) -> Iterator[_Compared]:
    """Multi-head, grouped 4 and 2, multi-query, by both kernels; additive attention."""
    sizes = config.model
    assert isinstance(sizes, TransformerConfig)
    vocab_sizes = (config.vocab_size, config.vocab_size)
    names = {sizes.n_heads: "multi-head", 4: "grouped 4", 2: "grouped 2", 1: "multi-query"}
    for kernel in KERNELS:
        for kv_heads in sorted((n for n in names if sizes.n_heads % n == 0), reverse=True):
            name = "multi-head" if kv_heads == sizes.n_heads else names[kv_heads]
            model = replace(sizes, n_kv_heads=kv_heads, kernel=kernel)
            yield _Compared(name, model, vocab_sizes)
    recurrent = RecurrentConfig(
        d_model=sizes.d_model,
        d_attention=sizes.d_model,
        tie_embeddings=sizes.tie_embeddings,
        dropout=sizes.dropout,
        max_length=sizes.max_length,
    )
    yield _Compared("additive RNN", recurrent, vocab_sizes)


def _of_runs(runs: list[Path]) -> list[_Compared]:
    """The models of trained runs, with BLEU on one set that all of them were scored on."""
    folders = [bundle_folder(run) for run in runs]
    homes = [f.parent if f.name == "bundle" else f for f in folders]
    short = [home.name for home in homes]
    names = short if len(set(short)) == len(short) else [str(home) for home in homes]
    configs = [read_config(folder / "config.json") for folder in folders]
    scores = [_scores(home, config) for home, config in zip(homes, configs, strict=True)]
    # A test set rather than validation, which the best weights were chosen by.
    common = sorted(
        set.intersection(*map(set, scores)), key=lambda key: (" test" not in key[0], key)
    )
    best = common[0] if common else None
    return [
        _Compared(
            name,
            config.model,
            config.vocab_sizes,
            found[best] if best else None,
            best[0] if best else None,
        )
        for name, config, found in zip(names, configs, scores, strict=True)
    ]


def _scores(run: Path, config: BundleConfig) -> dict[tuple[str, str], float]:
    """BLEU of a run, with its own search settings, by set: its name, and what tells it apart."""
    made = config.training
    try:
        data = made.get("config", {}).get("data", {})
        label = f"{data.get('name', 'unknown data')} validation"
        scores = {(label, json.dumps(data, sort_keys=True)): float(made["scores"]["BLEU"])}
    except (KeyError, TypeError, AttributeError) as error:
        raise RunError(
            f"cannot read the scores of {run} ({error!r}): its bundle is damaged or not ours; copy "
            "it again"
        ) from error
    for record in records_of(run).values():
        own = record.model is not None and record.model["step"] == made["step"]
        if own and record.decode == asdict(config.decode) and (bleu := record.score("BLEU")):
            scores[record.label, record.files["references"].fingerprint] = bleu.value
    return scores


def _measure(compared: _Compared, config: CompareConfig, device: str) -> Row:
    work = Work(config.sentences, config.length, config.repeats, compared.vocab_sizes, device)
    # A process for each: peak memory would otherwise be that of the largest so far.
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
        try:
            measured = process.submit(measure_model, compared.model, work).result()
        except (MemoryError, RuntimeError) as error:
            if not isinstance(error, BrokenProcessPool) and "memory" not in str(error):
                raise
            raise RunError(
                f"measuring {compared.name} needs more memory than there is: lower sentences= or "
                "length="
            ) from error
    row: Row = {"variant": compared.name, "kernel": getattr(compared.model, "kernel", "-")}
    row |= {name: round(value, 1) for name, value in asdict(measured).items()}
    if compared.bleu is not None:
        row |= {"bleu": round(compared.bleu, 2), "bleu_of": compared.bleu_of}
    return row


def _table(rows: list[Row]) -> str:
    """Aligned columns; the names of the columns stand in several lines where they are long."""
    heads = [name.split("_") for name in rows[0]]
    depth = max(map(len, heads))
    lines = [[head[i] if i < len(head) else "" for head in heads] for i in range(depth)]
    lines += [[_cell(value) for value in row.values()] for row in rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(heads))]
    return "\n".join(
        "  ".join(
            text.ljust(width) if column == 0 else text.rjust(width)
            for column, (text, width) in enumerate(zip(line, widths, strict=True))
        )
        for line in lines
    )


def _cell(value: Any) -> str:
    if not isinstance(value, float):
        return f"{value:,}" if isinstance(value, int) else str(value)
    return f"{value:,.2f}" if value < 100 else f"{value:,.0f}"


def _write(file: Path, rows: list[Row]) -> None:
    try:
        with file.open("w", newline="", encoding="utf-8") as lines:
            writer = csv.DictWriter(lines, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    except OSError as error:
        raise RunError(f"cannot write {file}: {error}. Choose another folder: output=") from error


def _draw(rows: list[Row], file: Path) -> None:
    """One panel of bars for each measure."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot as plt

    panels = PANELS + ((("bleu", "BLEU"),) if "bleu" in rows[0] else ())
    names = [f"{row['variant']}, {row['kernel']}".removesuffix(", -") for row in rows]
    columns = 2
    figure, axes = plt.subplots(
        -(-len(panels) // columns),
        columns,
        figsize=(10, (0.5 + 0.22 * len(rows)) * -(-len(panels) // columns) + 0.5),
        layout="constrained",
        squeeze=False,
        sharey=True,
    )
    for axis, (column, title) in zip(axes.flat, panels, strict=False):
        values = [row[column] for row in rows]
        colours = ["C1" if row["kernel"] == "reference" else "C0" for row in rows]
        bars = axis.barh(range(len(rows)), values, color=colours)
        axis.set_yticks(range(len(rows)), names)
        axis.bar_label(bars, [_cell(value) for value in values], padding=2, fontsize=7)
        axis.set_title(title, fontsize=9)
        axis.set_xlim(0, 1.2 * max(max(values), 1e-9))
        axis.set_xticks([])  # the bars say their values
        axis.tick_params(labelsize=7)
        axis.spines[["top", "right", "bottom"]].set_visible(False)
    for axis in axes.flat[len(panels) :]:
        axis.set_visible(False)
    axes[0, 0].invert_yaxis()  # shared: the first variant on top
    figure.savefig(file)
    plt.close(figure)
