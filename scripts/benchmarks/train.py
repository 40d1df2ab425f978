"""How fast a run trains on this machine, and where the time of a step goes.

Measured is training itself, on the first batches of the run that the same settings would start.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import NamedTuple

import torch

from benchmarks.measuring import Line, median_seconds, print_medians
from benchmarks.settings import TrainBenchmarkConfig
from seq2seq.callbacks.throughput import Work
from seq2seq.config import TrainConfig, TransformerConfig
from seq2seq.data.collate import Batch
from seq2seq.data.datamodule import Consumer, TranslationData
from seq2seq.malloc import keep_freed_memory
from seq2seq.model.build import build_model
from seq2seq.training.announcement import count_parameters, quiet_libraries
from seq2seq.training.distributed import Processes, make_fabric
from seq2seq.training.hardware import (
    allow_tf32,
    choose_accelerator,
    choose_precision,
    describe_device,
    peak_memory,
)
from seq2seq.training.lengths import in_steps
from seq2seq.training.random_state import seed_everything
from seq2seq.training.run_folder import Run
from seq2seq.training.stopping import StopRequest
from seq2seq.training.task import TranslationTask
from seq2seq.training.timing import PARTS, Timer, Times
from seq2seq.training.trainer import Trainer

DTYPES = {"32-true": torch.float32, "bf16-mixed": torch.bfloat16, "16-mixed": torch.float16}
# Rows and columns of the square product that shows what a device can do; large enough to fill it.
MATMUL = {"cpu": 2048, "gpu": 8192}


class Setting(NamedTuple):
    """One of the combinations that are compared; `kernel` is None for a model without a choice."""

    precision: str
    kernel: str | None
    compile: bool
    threads: int


def benchmark_train(config: TrainBenchmarkConfig) -> None:
    """Run `scripts/benchmark.py train`: print one JSON line for each setting.

    Raises:
        UserError: a setting cannot be used here, or the corpus cannot.
    """
    accelerator = choose_accelerator(config.trainer)
    settings = choose_settings(config, accelerator)
    open_data(config.training())  # once for all, and its faults are found here
    measured = partial(measure, config, accelerator)
    remedy = f"lower data.max_tokens={config.data.max_tokens}"
    print_medians(settings, config.repeats, measured, remedy)


def choose_settings(config: TrainBenchmarkConfig, accelerator: str) -> list[Setting]:
    """All combinations of what is compared.

    Raises:
        ConfigError: the device lacks a precision that was asked for.
    """
    both = ["32-true", "bf16-mixed"] if config.trainer.precision == "auto" else []
    precisions = [
        choose_precision(replace(config.trainer, precision=name), accelerator, config.model)
        for name in config.precisions or both or [config.trainer.precision]
    ]
    kernels: list[str | None] = [getattr(config.model, "kernel", None)]
    combinations = product(
        precisions,
        config.kernels or kernels,
        config.compile or [config.trainer.compile],
        config.threads or [torch.get_num_threads()],
    )
    return [Setting(*values) for values in dict.fromkeys(combinations)]


def measure(config: TrainBenchmarkConfig, accelerator: str, setting: Setting) -> Line:
    """Train for a few steps; figures of a step are medians."""
    keep_freed_memory()
    allow_tf32(accelerator)
    torch.set_num_threads(setting.threads)
    training = config.training()
    training.trainer = replace(training.trainer, compile=setting.compile)
    if isinstance(training.model, TransformerConfig) and setting.kernel is not None:
        training.model = replace(training.model, kernel=setting.kernel)
    number = config.warmup_steps + config.steps
    trainer, steps = train_steps(training, number, accelerator, setting.precision)
    steps = steps[config.warmup_steps :]
    peak = peak_memory("cuda" if accelerator == "gpu" else "cpu")  # before the product adds to it
    tflops = statistics.median(work.flops / times.total for work, times in steps) / 1e12
    matmul = matmul_tflops(MATMUL[accelerator], setting.precision, accelerator)
    real = sum(work.source + work.target for work, _ in steps)
    return {
        "model": config.model.name,
        "compile": trainer.compiled,
        "device": describe_device(accelerator),
        "parameters": count_parameters(trainer.model),
        "steps": len(steps),
        "target_tokens_per_second": round(
            statistics.median(work.target / times.total for work, times in steps)
        ),
        "step_seconds": statistics.median(times.total for _, times in steps),
        **{f"{part}_seconds": statistics.median(times.parts[part] for _, times in steps)
           for part in PARTS},
        "padding_share": round(1 - real / sum(work.positions for work, _ in steps), 4),
        "peak_memory_mib": round(peak / 2**20),
        "tflops": tflops,
        "matmul_tflops": matmul,
        "utilisation": tflops / matmul,
    }  # fmt: skip


def matmul_tflops(size: int, precision: str, accelerator: str) -> float:
    """TFLOP/s of a product of two square matrices (median): what the device can do at best."""
    device = "cuda" if accelerator == "gpu" else "cpu"
    left, right = (torch.randn(size, size, device=device).to(DTYPES[precision]) for _ in range(2))
    return 2 * size**3 / median_seconds(lambda: left @ right, 5, device) / 1e12


def open_data(config: TrainConfig) -> TranslationData:
    """The prepared data of a run."""
    t = config.trainer
    data = TranslationData(
        *(config.data, config.cleaning, config.tokenizer, config.model.max_length, config.seed),
        train_pairs=t.train_pairs,
        val_pairs=t.val_pairs,
        val_on_train=t.val_on_train,
    )
    data.prepare()
    return data


def train_steps(
    config: TrainConfig, number: int, accelerator: str, precision: str
) -> tuple[Trainer, list[tuple[Work, Times]]]:
    """Train for a few steps as `training/train.py` does, but for validations and checkpoints.

    Returns:
        trainer: after the last step.
        steps: what the batches of each step held, and how long it and its parts took; all of its
            time belongs to one of `PARTS`.
    """
    quiet_libraries()
    data = open_data(config)
    config = in_steps(config, data)
    seed_everything(config.seed)
    model = build_model(config.model, *data.vocabularies.sizes)
    t, processes = config.trainer, Processes()
    trainer = Trainer(
        make_fabric(accelerator, precision),
        TranslationTask(model, config.optim, t.max_steps),
        Run(Path(os.devnull), {}, precision, processes, StopRequest(processes)),
        max_tokens=config.data.max_tokens,
        accumulate=t.accumulate,
        gradient_clip=t.gradient_clip,
        spike=t.max_loss_spike,
        ema=config.optim.ema,
        compile=t.compile,
    )
    data.consumer = Consumer(accumulate=t.accumulate, pin_memory=accelerator == "gpu")
    held = [Work()]

    def counted() -> Iterator[Batch]:
        for batch in data.train_dataloader():
            held[-1].add(trainer.model, batch, passes=2 if config.optim.r_drop else 1)
            yield batch

    batches = counted()
    trainer.timer = Timer(trainer.device, keep_steps=True)
    for _ in trainer.train_some(batches, number):
        held.append(Work())
    steps = list(zip(held, trainer.timer.steps(), strict=False))
    for _, times in steps:  # what the loop itself takes stands with the optimiser
        times.parts["optimiser"] += times.total - sum(times.parts.values())
    return trainer, steps
