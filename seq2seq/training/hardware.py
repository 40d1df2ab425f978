"""What this machine has: device, precision, attention kernels, memory and its end."""

from __future__ import annotations

import logging
import os
import platform
import re
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from seq2seq.config import DataConfig, ModelConfig, TrainConfig, TrainerConfig, TransformerConfig
from seq2seq.cores import keep_freed_memory
from seq2seq.data.collate import Batch
from seq2seq.errors import ConfigError, RunError, command_line
from seq2seq.findings.before import SLOWER
from seq2seq.inference.engines.torch import cpu_has
from seq2seq.model import masks
from seq2seq.model.fused_attention import fused_backend

if TYPE_CHECKING:
    from seq2seq.training.trainer import Trainer


def choose_accelerator(config: TrainerConfig) -> str:
    """`cpu` or `gpu`, as asked or as found.

    Raises:
        ConfigError: a GPU, or more GPUs than there are, was asked for.
    """
    found = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if config.accelerator == "gpu" and not found:
        raise ConfigError(
            [
                "trainer.accelerator=gpu, but torch sees no GPU here "
                f"(torch {torch.__version__}, CPU {platform.processor() or platform.machine()}): "
                "use trainer=auto, or install a CUDA build of torch and a driver"
            ]
        )
    accelerator = "gpu" if found and config.accelerator != "cpu" else "cpu"
    if accelerator == "gpu" and config.devices > found:
        raise ConfigError(
            [f"trainer.devices={config.devices}, but this machine has {found} GPU(s): lower it"]
        )
    return accelerator


def claim_device(accelerator: str) -> None:
    """Make this process's own GPU the current one, before anything takes memory of another."""
    if accelerator == "gpu":
        names = ("LOCAL_RANK", "SLURM_LOCALID")
        found = next((int(os.environ[name]) for name in names if name in os.environ), 0)
        torch.cuda.set_device(found)


# From these widths on bf16 is faster than fp32 on a CPU that has instructions for it. If the shapes
# of batches are few, it trains 1.9 times as fast on one thread at width 128 (`experiment=demo`:
# 10,900 target tokens/s, fp32 5,900) and 2.3 times at 256. Each new shape costs bf16 some 10 ms for
# each kind of product, whose kernels are made on the spot; with many shapes (Multi30k, seconds of a
# step in fp32 / bf16: 0.4 / 0.8 at width 128, 1.0 / 1.2 at 256, 5.9 / 2.5 at 512, two cores) only
# wider models make up for that. A rule and not a trial, so that two runs of the same settings are
# the same.
BF16_WIDTH, BF16_WIDTH_MANY_SHAPES = 128, 512


def choose_precision(
    config: TrainerConfig, accelerator: str, model: ModelConfig, data: DataConfig
) -> tuple[str, str]:
    """`config.precision`, where auto is the fastest that is safe.

    That is bf16 on a GPU that has it and fp16 on others; on a CPU bf16 where it has instructions
    for it and the model is wide enough to gain from them, else fp32.

    Args:
        data: says whether batches have few shapes (`length_multiple=0`).

    Returns:
        The precision; why it was chosen, or what is to be said against it, or nothing.

    Raises:
        ConfigError: the device lacks the precision asked for.
    """
    wanted = config.precision
    if accelerator == "cpu":
        if wanted == "16-mixed":
            raise ConfigError(
                [
                    "trainer.precision=16-mixed needs a GPU, and this run is on the CPU: use "
                    "trainer.precision=32-true or bf16-mixed"
                ]
            )
        if not cpu_has("bfloat16"):
            slow = "slow, as this CPU has no instructions for bf16"
            return ("bf16-mixed", slow) if wanted == "bf16-mixed" else ("32-true", "")
        width = BF16_WIDTH if data.length_multiple == 0 else BF16_WIDTH_MANY_SHAPES
        if wanted != "auto":
            return wanted, SLOWER if wanted == "32-true" and model.d_model >= width else ""
        if model.d_model >= width:
            return "bf16-mixed", "chosen, as this CPU has instructions for bf16"
        why = f"chosen, as bf16 gains with models of width {width} and more"
        if model.d_model >= BF16_WIDTH:
            why += f", or {BF16_WIDTH} with data.length_multiple=0"
        return "32-true", why
    has_bf16 = torch.cuda.get_device_capability()[0] >= 8
    if wanted == "bf16-mixed" and not has_bf16:
        raise ConfigError(
            [
                f"trainer.precision=bf16-mixed: {torch.cuda.get_device_name()} has no bf16 "
                "arithmetic; use trainer.precision=16-mixed"
            ]
        )
    if wanted == "auto":
        return ("bf16-mixed" if has_bf16 else "16-mixed"), ""
    return wanted, SLOWER if wanted == "32-true" and has_bf16 else ""


def set_up_process(accelerator: str, first: bool = True) -> None:
    """Settings of a process for training; of several, the first one speaks for all."""
    keep_freed_memory()
    if not first:
        logging.getLogger("seq2seq").setLevel(logging.WARNING)
    # Products of fp32 run on the tensor cores of a GPU. A CPU must not take the same setting:
    # kernels would be made anew for each shape of a batch, and training take three times as long.
    torch.set_float32_matmul_precision("high" if accelerator == "gpu" else "highest")
    # Messages that tell our users nothing they can act on.
    for name in ("lightning.fabric", "lightning.pytorch"):  # the second logs for the first, too
        logging.getLogger(name).setLevel(logging.WARNING)
    warnings.filterwarnings("ignore", message=".*LeafSpec.*")
    # What fp16 does when its first steps overflow; the schedule goes on with the data.
    warnings.filterwarnings("ignore", message=".*lr_scheduler.step.. before .optimizer.step.*")


def describe_device(accelerator: str) -> str:
    """For people: `NVIDIA H100`, or `CPU (8 threads)`."""
    if accelerator == "gpu":
        return torch.cuda.get_device_name()
    threads = torch.get_num_threads()
    return f"CPU ({threads} thread{'s' * (threads > 1)})"


# Dense products of bf16, or fp16 where there is no bf16, added up in fp32: TFLOP/s by NVIDIA's data
# sheets (theirs with sparsity are twice as high). All words must stand in the device's name; the
# first line that fits counts.
DENSE_PEAKS = {
    "B200": 2250.0,
    "GH200": 989.0,
    "H200": 989.0,
    "H100 PCIe": 756.0,
    "H100 NVL": 835.0,
    "H100": 989.0,
    "H800": 989.0,
    "A100": 312.0,
    "A800": 312.0,
    "A40": 149.7,
    "A30": 165.0,
    "A10": 125.0,
    "A10G": 70.0,
    "L40S": 362.0,
    "L40": 181.0,
    "L4": 121.0,
    "V100": 125.0,
    "T4": 65.0,
    "RTX A6000": 154.8,
    "RTX 5090": 209.5,
    "RTX 4090": 165.2,
    "RTX 3090": 71.0,
}


def dense_peak(device_name: str) -> float | None:
    """TFLOP/s of matrix products that a GPU can reach; None for one that is not listed."""
    words = set(re.split(r"[\s-]+", device_name))
    if "Laptop" in words:
        return None  # slower than their namesakes, and each maker sets another limit
    fits = (peak for name, peak in DENSE_PEAKS.items() if words.issuperset(name.split()))
    return next(fits, None)


def describe_attention(config: ModelConfig, accelerator: str, precision: str) -> str:
    """Which kernel each attention of a model runs in training: `encoder flash, decoder ...`."""
    if not isinstance(config, TransformerConfig):
        return "additive"
    if config.kernel != "sdpa":
        return f"{config.kernel} kernel"
    half = torch.float16 if precision.startswith("16") else torch.bfloat16
    dtype = torch.float32 if precision == "32-true" else half
    device = "cuda" if accelerator == "gpu" else "cpu"
    width = config.head_dim or config.d_model // config.n_heads
    kv_heads = config.n_kv_heads or config.n_heads
    q = torch.zeros(2, config.n_heads, 8, width, device=device, dtype=dtype, requires_grad=True)
    kv = torch.zeros(2, kv_heads, 8, width, device=device, dtype=dtype, requires_grad=True)
    padded = masks.padding(torch.ones(2, 8, dtype=torch.bool, device=device))
    dropout = config.attention_dropout
    of_source = fused_backend(q, kv, kv, padded, dropout)
    of_target = fused_backend(q, kv, kv, None, dropout, causal=True)
    text = f"encoder {of_source}, decoder {of_target}, across {of_source} kernel"
    if "math" not in (of_source, of_target):
        return text
    reason = f": no fast one takes attention_dropout={dropout} here" if dropout else ""
    return f"{text} (math is the slow one{reason})"


def peak_memory(device: str) -> int:
    """Peak bytes so far: of the GPU on `cuda`, else of this process; 0 on Windows."""
    if device == "cuda":
        return torch.cuda.max_memory_allocated()
    try:
        status = Path("/proc/self/status").read_text(encoding="utf-8")
        return int(status.partition("VmHWM:")[2].split()[0]) * 1024
    except (OSError, IndexError, ValueError):  # not Linux
        with suppress(ImportError):
            import resource

            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            return peak if sys.platform == "darwin" else peak * 1024
    return 0


# torch.OutOfMemoryError is what CUDA's allocator raises; others are a mere RuntimeError.
MESSAGES = "can't allocate memory|not enough memory|out of memory|STATUS_ALLOC_FAILED"


def ran_out(error: BaseException) -> bool:
    """Whether an error says that memory ran out, of the GPU or of the machine."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and re.search(MESSAGES, str(error)) is not None


@contextmanager
def plain_memory_errors(config: TrainConfig, trainer: Trainer) -> Iterator[None]:
    """Memory that runs out while training becomes a message that says what to change.

    Raises:
        RunError: memory ran out.
    """
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not ran_out(error):
            raise
        folder, device = trainer.run.folder, trainer.device.type
        raise RunError(_out_of_memory(config, trainer.batch, folder, device)) from error


def _out_of_memory(config: TrainConfig, batch: Batch | None, run_dir: Path, device: str) -> str:
    """What a user can do; `batch` is the one that was trained on, None in a validation."""
    taken = f"up to {peak_memory(device) / 2**30:.1f} GiB taken"
    if batch is None:
        half = max(1, config.decode.batch_tokens // 2)
        return (
            f"out of memory in a validation, or before the first step ({taken}). To go on, "
            "translating half as much at once: "
            f"{command_line('train', f'resume={run_dir}', f'decode.batch_tokens={half}')}. For a "
            f"new run: a smaller decode.beam={config.decode.beam}"
        )
    sentences, source_length = batch.source.shape
    return (
        f"out of memory with a batch of {sentences} sentences x {source_length} source x "
        f"{batch.labels.size(1)} target tokens ({taken}). For a new run: lower data.max_tokens="
        f"{config.data.max_tokens} and raise trainer.accumulate={config.trainer.accumulate} by the "
        "same factor, which learns the same; or a smaller model; or trainer.precision=bf16-mixed"
    )
