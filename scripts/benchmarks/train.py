"""How fast a run trains on this machine, and where the time of a step goes.

Measured is training itself, on the first batches of the run that the same settings would start.
"""

from __future__ import annotations

import json
import statistics
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import torch

from benchmarks.measuring import described, in_own_process, in_turns, median_seconds
from benchmarks.settings import TrainBenchmarkConfig
from benchmarks.steps import Step, train_steps
from seq2seq.config import PRECISIONS
from seq2seq.errors import ConfigError
from seq2seq.training.dry_run import count_parameters
from seq2seq.training.hardware import (
    choose_accelerator,
    choose_precision,
    dense_peak,
    describe_device,
    peak_memory,
    set_up_process,
)
from seq2seq.training.timing import PARTS
from seq2seq.training.train import open_data

DTYPES = {"32-true": torch.float32, "bf16-mixed": torch.bfloat16, "16-mixed": torch.float16}
# Rows and columns of the square product that shows what a device can do; large enough to fill it.
MATMUL = {"cpu": 2048, "gpu": 8192}


class Setting(NamedTuple):
    """One of the combinations that are compared; `kernel` is None for a model without a choice."""

    precision: str
    kernel: str | None
    compile: bool
    threads: int


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
    open_data(config.training())  # once for all, and its faults are found here

    def one(setting: Setting) -> Measured:
        name = f"training with {described(setting)}"
        remedy = f"lower data.max_tokens={config.data.max_tokens}"
        return in_own_process(measure, config, setting, accelerator, name=name, remedy=remedy)

    for setting, measured in in_turns(settings, config.repeats, one).items():
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
        return choose_precision(trainer, accelerator, config.model, config.data)[0]

    if config.precisions or config.trainer.precision != "auto":
        return [chosen(one) for one in config.precisions or [config.trainer.precision]]
    here = []
    for precision in PRECISIONS[1:]:
        try:
            here.append(chosen(precision))
        except ConfigError:  # the device lacks it
            continue
    return here


def measure(config: TrainBenchmarkConfig, setting: Setting, accelerator: str) -> Measured:
    """Train for a few steps; run it in a process of its own."""
    set_up_process(accelerator)
    torch.set_num_threads(setting.threads)
    training = config.training()
    kernel: dict[str, Any] = {} if setting.kernel is None else {"kernel": setting.kernel}
    training = replace(
        training,
        model=replace(training.model, **kernel),
        trainer=replace(training.trainer, compile=setting.compile),
    )
    steps = config.warmup_steps + config.steps
    trainer, found = train_steps(training, steps, accelerator, setting.precision)
    peak = peak_memory("cuda" if accelerator == "gpu" else "cpu")  # before the product adds to it
    return Measured(
        device=describe_device(accelerator),
        parameters=count_parameters(trainer.model),
        compiled=trainer.compiled,
        steps=found[config.warmup_steps :],
        peak_memory=peak,
        matmul_tflops=matmul_tflops(MATMUL[accelerator], setting.precision, accelerator),
    )


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
    parts = {part: statistics.median(step.seconds[part] for step in steps) for part in PARTS}
    tflops = rate("flops") / 1e12
    matmul = statistics.median(turn.matmul_tflops for turn in turns)
    sheet = dense_peak(turns[0].device) if setting.precision != "32-true" else None
    size = MATMUL[accelerator]
    return {
        "model": config.model.name,
        **setting._asdict(),
        "compile": turns[0].compiled,
        "device": turns[0].device,
        "parameters": turns[0].parameters,
        "steps": len(steps),
        "target_tokens_per_second": round(rate("target_tokens")),
        "target_tokens_per_second_p25": round(rate("target_tokens", 0.25)),
        "target_tokens_per_second_p75": round(rate("target_tokens", 0.75)),
        "source_tokens_per_second": round(rate("source_tokens")),
        "step_seconds": round(statistics.median(seconds), 5),
        **{f"{part}_seconds": round(median, 5) for part, median in parts.items()},
        "padding_share": round(1 - real / sum(step.positions for step in steps), 4),
        "peak_memory_mib": round(max(turn.peak_memory for turn in turns) / 2**20),
        "tflops": round(tflops, 5),
        "matmul": f"{size}x{size}x{size}",
        "matmul_tflops": round(matmul, 5),
        "utilisation": round(tflops / matmul, 4),
        "data_sheet_tflops": sheet,
        "data_sheet_utilisation": None if sheet is None else round(tflops / sheet, 4),
    }
