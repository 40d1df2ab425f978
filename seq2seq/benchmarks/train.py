"""How fast a model trains on this machine, and where the time of a step goes.

What is measured is training itself: the batches of `TranslationData` in their order, through
`Trainer`. Each measurement has a process of its own, so that the
peak of memory is its own, and settings take turns, so that a busy machine hits all alike.
"""

from __future__ import annotations

import json
import logging
import multiprocessing
import os
import statistics
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch

from seq2seq.benchmarks.models import median_seconds
from seq2seq.config import PRECISIONS, TrainBenchmarkConfig
from seq2seq.data.collate import Batch
from seq2seq.data.datamodule import Consumer, TranslationData
from seq2seq.errors import ConfigError, RunError
from seq2seq.malloc import keep_freed_memory
from seq2seq.model.build import build_model
from seq2seq.model.flops import BatchSize, training_flops
from seq2seq.model.translation_model import TranslationModel
from seq2seq.training.announcement import count_parameters, quiet_libraries
from seq2seq.training.distributed import Processes, make_fabric
from seq2seq.training.hardware import (
    allow_tf32,
    choose_accelerator,
    choose_precision,
    dense_peak,
    describe_device,
    peak_memory,
    ran_out,
)
from seq2seq.training.lengths import in_steps
from seq2seq.training.random_state import seed_everything
from seq2seq.training.run_folder import Run
from seq2seq.training.stopping import StopRequest
from seq2seq.training.task import TranslationTask
from seq2seq.training.timing import PARTS, Timer
from seq2seq.training.trainer import Trainer

log = logging.getLogger(__name__)

DTYPES = {"32-true": torch.float32, "bf16-mixed": torch.bfloat16, "16-mixed": torch.float16}
# Rows and columns of the square product that shows what a device can do; large enough to fill it.
MATMUL = {"cpu": 2048, "gpu": 8192}


@dataclass(frozen=True)
class Setting:
    """One of the combinations that are compared."""

    precision: str
    kernel: str | None  # None for a model without a choice
    compile: bool
    threads: int

    def __str__(self) -> str:
        kernel = f", {self.kernel} kernel" if self.kernel else ""
        compiled = ", compiled" if self.compile else ""
        return f"{self.precision}{kernel}{compiled}, {self.threads} threads"


@dataclass
class Step:
    """One update of the weights.

    Attributes:
        source_tokens, target_tokens: real ones.
        positions: of both sides, padding included.
        flops: floating-point operations of the model, see `model/flops.py`.
        seconds: of each of `PARTS`; all of the time belongs to one of them.
    """

    source_tokens: int = 0
    target_tokens: int = 0
    positions: int = 0
    flops: float = 0.0
    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(PARTS, 0.0))


@dataclass
class Measured:
    """What one process found.

    Attributes:
        device: in words.
        parameters: trained numbers.
        compiled: whether torch.compile worked, where it was asked for.
        steps: those that count.
        peak_memory: bytes; on a CPU of the whole process, on a GPU of torch.
        matmul_tflops: reached by a large product of matrices of the same precision.
    """

    device: str
    parameters: int
    compiled: bool
    steps: list[Step]
    peak_memory: int
    matmul_tflops: float


def benchmark_train(config: TrainBenchmarkConfig) -> None:
    """Run `scripts/benchmark.py train`: print one JSON line for each setting.

    Raises:
        UserError: a setting cannot be used here, or the corpus cannot.
    """
    accelerator = choose_accelerator(config.trainer)
    settings = choose_settings(config, accelerator)
    open_data(config)  # once for all, and its faults are found here
    found: dict[Setting, list[Measured]] = {setting: [] for setting in settings}
    turns = [setting for _ in range(config.repeats) for setting in settings]
    for turn, setting in enumerate(turns, 1):
        log.info("measuring   %d of %d: %s", turn, len(turns), setting)
        found[setting].append(_in_a_process(config, setting, accelerator))
    for setting, measured in found.items():
        print(json.dumps(summary(config, setting, accelerator, measured)), flush=True)


def choose_settings(config: TrainBenchmarkConfig, accelerator: str) -> list[Setting]:
    """All combinations of what is compared.

    Raises:
        ConfigError: the device lacks a precision that was asked for.
    """
    kernels: list[str | None] = [getattr(config.model, "kernel", None)]
    combinations = product(
        config.threads or [torch.get_num_threads()],
        _precisions(config, accelerator),
        config.kernels or kernels,
        config.compile or [config.trainer.compile],
    )
    return [
        Setting(precision, kernel, compiled, threads)
        for threads, precision, kernel, compiled in dict.fromkeys(combinations)
    ]


def _precisions(config: TrainBenchmarkConfig, accelerator: str) -> list[str]:
    def chosen(precision: str) -> str:
        trainer = replace(config.trainer, precision=precision)
        return choose_precision(trainer, accelerator, config.model)

    if config.precisions:
        return [chosen(precision) for precision in config.precisions]
    if config.trainer.precision != "auto":
        return [chosen(config.trainer.precision)]
    here = []
    for precision in PRECISIONS[1:]:
        try:
            here.append(chosen(precision))
        except ConfigError:  # the device lacks it
            continue
    return here


def open_data(config: TrainBenchmarkConfig) -> TranslationData:
    """The prepared data of the run that is measured."""
    t = config.trainer
    data = TranslationData(
        config.data,
        config.cleaning,
        config.tokenizer,
        config.model.max_length,
        config.seed,
        train_pairs=t.train_pairs,
        val_pairs=t.val_pairs,
        val_on_train=t.val_on_train,
    )
    data.prepare()
    return data


def _in_a_process(config: TrainBenchmarkConfig, setting: Setting, accelerator: str) -> Measured:
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
        try:
            return process.submit(measure, config, setting, accelerator).result()
        except (MemoryError, RuntimeError) as error:
            # Linux kills a process that takes too much.
            if not isinstance(error, BrokenProcessPool) and not ran_out(error):
                raise
            raise RunError(
                f"training with {setting} needs more memory than there is: lower "
                f"data.max_tokens={config.data.max_tokens}"
            ) from error


def measure(config: TrainBenchmarkConfig, setting: Setting, accelerator: str) -> Measured:
    """Train for a few steps; run it in a process of its own."""
    keep_freed_memory()
    allow_tf32(accelerator)
    torch.set_num_threads(setting.threads)
    trainer, steps = train_steps(config, setting, accelerator)
    peak = peak_memory("cuda" if accelerator == "gpu" else "cpu")  # before the product adds to it
    return Measured(
        device=describe_device(accelerator),
        parameters=count_parameters(trainer.model),
        compiled=trainer.compiled,
        steps=steps[config.warmup_steps :],
        peak_memory=peak,
        matmul_tflops=matmul_tflops(MATMUL[accelerator], setting.precision, accelerator),
    )


def train_steps(
    config: TrainBenchmarkConfig, setting: Setting, accelerator: str
) -> tuple[Trainer, list[Step]]:
    """The first steps of the run that the settings describe, as `training/train.py` makes them."""
    quiet_libraries()
    seed_everything(config.seed)
    data = open_data(config)
    training = in_steps(config.training(), data)
    seed_everything(config.seed)
    kernel: dict[str, Any] = {} if setting.kernel is None else {"kernel": setting.kernel}
    model = build_model(replace(training.model, **kernel), *data.vocabularies.sizes)
    t = training.trainer
    task = TranslationTask(model, training.optim, t.max_steps)
    processes = Processes()
    run = Run(Path(os.devnull), {}, setting.precision, processes, StopRequest(processes))
    trainer = Trainer(
        make_fabric(accelerator, setting.precision),
        task,
        run,
        max_tokens=training.data.max_tokens,
        accumulate=t.accumulate,
        gradient_clip=t.gradient_clip,
        spike=t.spike,
        ema=training.optim.ema,
        compile=setting.compile,
    )
    data.consumer = Consumer(accumulate=t.accumulate, pin_memory=accelerator == "gpu")
    passes = 2 if training.optim.r_drop else 1
    return trainer, measured_steps(trainer, data, config.warmup_steps + config.steps, passes)


def measured_steps(trainer: Trainer, data: TranslationData, count: int, passes: int) -> list[Step]:
    """So many updates, each with what it held and how long its parts took."""
    held = [Step()]
    batches = _noted(iter(data.train_dataloader()), trainer.model, held, passes)
    trainer.timer = Timer(trainer.device, keep_steps=True)
    for _ in trainer.train_some(batches, count):
        held.append(Step())
    for step, times in zip(held, trainer.timer.steps(), strict=False):
        between = times.total - sum(times.parts.values())  # EMA, and what the loop itself takes
        step.seconds = {**times.parts, "optimiser": times.parts["optimiser"] + between}
    return held[:-1]


def _noted(
    batches: Iterator[Batch], model: TranslationModel, held: list[Step], passes: int
) -> Iterator[Batch]:
    """The batches, each counted in the last of the steps."""
    for batch in batches:
        step = held[-1]
        step.source_tokens += batch.source_tokens
        step.target_tokens += batch.target_tokens
        step.positions += batch.source.numel() + batch.labels.numel()
        size = BatchSize(batch.source.size(0), batch.source_tokens, batch.target_tokens)
        step.flops += passes * training_flops(model.config, model.vocab_sizes[1], size)
        yield batch


def matmul_tflops(size: int, precision: str, accelerator: str) -> float:
    """TFLOP/s of a product of two square matrices (median): what the device can do at best."""
    device = "cuda" if accelerator == "gpu" else "cpu"
    left, right = (torch.randn(size, size, device=device).to(DTYPES[precision]) for _ in range(2))
    return 2 * size**3 / median_seconds(lambda: left @ right, 5, device) / 1e12


def summary(
    config: TrainBenchmarkConfig, setting: Setting, accelerator: str, turns: list[Measured]
) -> dict[str, Any]:
    """What is printed: medians over the steps of all turns."""
    steps = [step for turn in turns for step in turn.steps]
    seconds = [sum(step.seconds.values()) for step in steps]

    def rate(amount: str, share: float = 0.5) -> float:
        rates = [getattr(step, amount) / s for step, s in zip(steps, seconds, strict=True)]
        return float(np.quantile(rates, share))

    real = sum(step.source_tokens + step.target_tokens for step in steps)
    tflops = rate("flops") / 1e12
    matmul = statistics.median(turn.matmul_tflops for turn in turns)
    sheet = dense_peak(turns[0].device) if setting.precision != "32-true" else None
    size = MATMUL[accelerator]
    return {
        "model": config.model.name,
        "precision": setting.precision,
        "kernel": setting.kernel,
        "compile": turns[0].compiled,
        "threads": setting.threads,
        "device": turns[0].device,
        "parameters": turns[0].parameters,
        "steps": len(steps),
        "target_tokens_per_second": round(rate("target_tokens")),
        "target_tokens_per_second_p25": round(rate("target_tokens", 0.25)),
        "target_tokens_per_second_p75": round(rate("target_tokens", 0.75)),
        "source_tokens_per_second": round(rate("source_tokens")),
        "step_seconds": round(statistics.median(seconds), 5),
        **{
            f"{part}_seconds": round(statistics.median(step.seconds[part] for step in steps), 5)
            for part in PARTS
        },
        "padding_share": round(1 - real / sum(step.positions for step in steps), 4),
        "peak_memory_mib": round(max(turn.peak_memory for turn in turns) / 2**20),
        "tflops": round(tflops, 5),
        "matmul": f"{size}x{size}x{size}",
        "matmul_tflops": round(matmul, 5),
        "utilisation": round(tflops / matmul, 4),
        "data_sheet_tflops": sheet,
        "data_sheet_utilisation": None if sheet is None else round(tflops / sheet, 4),
    }
