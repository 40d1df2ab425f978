"""Measure how fast a run trains on this machine, and where the time of a step goes.

The benchmark runs the training itself, on the first batches that a run of these settings would use.
"""

from __future__ import annotations

import json

import torch
from torch import Tensor
from torch.utils.benchmark import Timer

from benchmarks.settings import TrainBenchmarkConfig
from seq2seq.data.datamodule import Consumer
from seq2seq.training.callbacks.throughput import work
from seq2seq.training.failures import plain_failures
from seq2seq.training.hardware import (
    choose_accelerator,
    choose_training_precision,
    describe_device,
    peak_memory,
    set_up_process,
    with_length_multiple,
)
from seq2seq.training.lengths import in_steps
from seq2seq.training.run_notes import count_parameters
from seq2seq.training.timing import Times
from seq2seq.training.train import make_model, make_trainer, open_data
from seq2seq.training.trainer import Trainer

DTYPES = {"32-true": torch.float32, "bf16-mixed": torch.bfloat16, "16-mixed": torch.float16}
# Rows and columns of the square matrices whose product gives the peak speed; they fill the device.
MATMUL = {"cpu": 2048, "gpu": 8192}


def benchmark_train(config: TrainBenchmarkConfig) -> None:
    """Run `scripts/benchmark.py train`: print one JSON line."""
    accelerator = choose_accelerator(config.trainer)
    config = with_length_multiple(config, accelerator)
    t = config.trainer
    precision, _ = choose_training_precision(t, accelerator, config.model, config.data)
    set_up_process(accelerator)
    trainer, held, times = train_steps(config, accelerator, precision)
    peak = peak_memory(trainer.device.type)  # before the matrix product uses memory
    source, target, positions, flops = held.tolist()
    matmul = matmul_tflops(MATMUL[accelerator], precision, accelerator)
    tflops = flops / times.total / 1e12
    line = {
        "model": config.model.name,
        "precision": precision,
        "kernel": getattr(config.model, "kernel", None),
        "compile": config.trainer.compile,
        "threads": torch.get_num_threads(),
        "device": describe_device(accelerator),
        "parameters": count_parameters(trainer.model),
        "steps": times.steps,
        "target_tokens_per_second": round(target / times.total),
        "step_seconds": times.total / times.steps,
        **{f"{part}_seconds": seconds / times.steps for part, seconds in times.parts.items()},
        "padding_share": round(1 - (source + target) / positions, 4),
        "peak_memory_mib": round(peak / 2**20),
        "tflops": tflops,
        "matmul_tflops": matmul,
        "utilisation": tflops / matmul,
    }
    print(json.dumps(line), flush=True)


def matmul_tflops(size: int, precision: str, accelerator: str) -> float:
    """Return the median TFLOP/s of a square matrix product, as the best that the device can do."""
    device = "cuda" if accelerator == "gpu" else "cpu"
    left, right = (torch.randn(size, size, device=device).to(DTYPES[precision]) for _ in range(2))
    timer = Timer("left @ right", globals=locals(), num_threads=torch.get_num_threads())
    return 2 * size**3 / timer.blocked_autorange().median / 1e12


def train_steps(
    config: TrainBenchmarkConfig, accelerator: str, precision: str
) -> tuple[Trainer, Tensor, Times]:
    """Train for a few steps as `training/train.py` does, without validations and checkpoints.

    Returns:
        trainer: after the last step.
        held: sum of `work` over the batches of the measured steps.
        times: of these steps; the parts sum up to the total.
    """
    data = open_data(config)
    model = make_model(config.model, data, None, seed=config.seed, whole=True)
    trainer = make_trainer(in_steps(config, data), model, accelerator, precision)
    consumer = Consumer(accumulate=config.trainer.accumulate, pin_memory=accelerator == "gpu")
    batches = iter(data.train_dataloader(consumer))
    with plain_failures(trainer.run.folder, trainer):
        for _ in range(config.warmup_steps):
            trainer.train_step(batches)
        trainer.timer.restart()
        steps = [trainer.train_step(batches) for _ in range(config.steps)]
        times = trainer.timer.read()
    # The time of the loop itself is added to the optimiser's.
    times.parts["optimiser"] += times.total - sum(times.parts.values())
    held = torch.stack([work(model, batch) for used in steps for batch in used]).sum(0)
    return trainer, held, times
