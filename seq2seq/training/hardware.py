"""The hardware of this machine: device, precision, attention kernels, memory."""

from __future__ import annotations

import logging
import os
import platform
import re
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import torch

from seq2seq.config import DataConfig, ModelConfig, TrainConfig, TrainerConfig, TransformerConfig
from seq2seq.cores import keep_freed_memory
from seq2seq.errors import ConfigError
from seq2seq.findings.before import SLOWER
from seq2seq.inference.engines.torch import cpu_has
from seq2seq.length import rounding_step
from seq2seq.model import masks
from seq2seq.model.fused_attention import fused_backend

Config = TypeVar("Config", bound=TrainConfig)

# Allocators raise a RuntimeError with such a text; torch.OutOfMemoryError is one, too.
OUT_OF_MEMORY = "can't allocate memory|not enough memory|out of memory|STATUS_ALLOC_FAILED"


def choose_accelerator(config: TrainerConfig) -> str:
    """Choose `cpu` or `gpu`: as the settings say or, for auto, a GPU if there is one.

    Raises:
        ConfigError: the settings ask for a GPU, or for more GPUs, than this machine has.
    """
    found = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if config.accelerator == "cpu" or (config.accelerator == "auto" and not found):
        return "cpu"
    if not found:
        raise ConfigError(
            "trainer.accelerator=gpu, but torch sees no GPU here "
            f"(torch {torch.__version__}, CPU {platform.processor() or platform.machine()}): "
            "use trainer=auto, or install a CUDA build of torch and a driver"
        )
    if config.devices > found:
        raise ConfigError(
            f"trainer.devices={config.devices}, but this machine has {found} GPU(s): lower it"
        )
    return "gpu"


def claim_device(accelerator: str) -> None:
    """Make this process's own GPU current, before anything allocates memory on another GPU."""
    if accelerator == "gpu":
        names = ("LOCAL_RANK", "SLURM_LOCALID")
        found = next((int(os.environ[name]) for name in names if name in os.environ), 0)
        torch.cuda.set_device(found)


# On a CPU with instructions for bf16, models of at least this width train faster in bf16: 1.9 times
# at width 128, 2.3 times at 256 (`experiment=demo`, one thread). But for each new batch shape, bf16
# makes a kernel for each kind of product, which takes some 10 ms, so with many shapes only wider
# models gain from the first step on. A rule decides, not a trial, so that two runs with the same
# settings are the same.
BF16_WIDTH, BF16_WIDTH_MANY_SHAPES = 128, 512


def with_length_multiple(config: Config, accelerator: str) -> Config:
    """Return the settings with a number for `data.length_multiple`.

    null becomes 0, which makes few shapes, where a CPU will train in bf16 and can gain from it;
    else 1. A run stores the number, so that it has the same batches wherever it is resumed.
    """
    if config.data.length_multiple is not None:
        return config
    model, wanted = config.model, config.trainer.precision
    fits = model.max_length % rounding_step(model.max_length) == 0
    gains = wanted == "bf16-mixed" or (wanted == "auto" and model.d_model >= BF16_WIDTH)
    few = accelerator == "cpu" and cpu_has("bfloat16") and gains and fits
    return replace(config, data=replace(config.data, length_multiple=0 if few else 1))


def choose_training_precision(
    config: TrainerConfig, accelerator: str, model: ModelConfig, data: DataConfig
) -> tuple[str, str]:
    """Choose the precision: `config.precision` or, for auto, the fastest safe one.

    auto means bf16 on a GPU that has bf16, and fp16 on other GPUs. On a CPU it means bf16 if the
    CPU has instructions for bf16 and the model is wide enough to gain from them, else fp32.

    Args:
        data: says whether batches have few shapes (`length_multiple=0`).

    Returns:
        The precision; and a remark: why it was chosen, or its drawback, or nothing.

    Raises:
        ConfigError: the device lacks the precision that the settings ask for.
    """
    wanted, best, why = config.precision, "bf16-mixed", ""
    if accelerator == "gpu":
        has_bf16 = torch.cuda.get_device_capability()[0] >= 8
        if wanted == "bf16-mixed" and not has_bf16:
            raise ConfigError(
                f"trainer.precision=bf16-mixed: {torch.cuda.get_device_name()} has no bf16 "
                "arithmetic; use trainer.precision=16-mixed"
            )
        best = best if has_bf16 else "16-mixed"
    else:
        has_bf16 = cpu_has("bfloat16")
        if wanted == "16-mixed":
            raise ConfigError(
                "trainer.precision=16-mixed needs a GPU, and this run is on the CPU: use "
                "trainer.precision=32-true or bf16-mixed"
            )
        width = BF16_WIDTH if data.length_multiple == 0 else BF16_WIDTH_MANY_SHAPES
        if not (has_bf16 and model.d_model >= width):
            best = "32-true"
        if best == "bf16-mixed":
            why = "chosen, as this CPU has instructions for bf16"
        elif has_bf16:
            why = f"chosen, as bf16 gains with models of width {width} and more"
            if model.d_model >= BF16_WIDTH:
                why += f", or {BF16_WIDTH} with data.length_multiple=0"
    if wanted == "auto":
        return best, why
    if wanted == "bf16-mixed" and not has_bf16:
        return wanted, "slow, as this CPU has no instructions for bf16"
    return wanted, SLOWER if (wanted, best) == ("32-true", "bf16-mixed") else ""


def set_up_process(accelerator: str, first: bool = True) -> None:
    """Set up a process for training; of several, only the first logs more than warnings."""
    keep_freed_memory()
    if not first:
        logging.getLogger("seq2seq").setLevel(logging.WARNING)
    # Products of fp32 run on the tensor cores of a GPU. A CPU must not use the same setting: it
    # would make new kernels for each batch shape, and training would take three times as long.
    torch.set_float32_matmul_precision("high" if accelerator == "gpu" else "highest")
    # Hide messages that users cannot act on.
    logging.getLogger("lightning_fabric").setLevel(logging.WARNING)


def describe_device(accelerator: str) -> str:
    """Describe the device for people: `NVIDIA H100`, or `CPU (8 threads)`."""
    if accelerator == "gpu":
        return torch.cuda.get_device_name()
    threads = torch.get_num_threads()
    return f"CPU ({threads} thread{'s' * (threads > 1)})"


# TFLOP/s of dense matrix products in bf16 (fp16 if the GPU has no bf16) with sums in fp32, from
# NVIDIA's data sheets (figures with sparsity are twice as high). A line fits if the device's name
# has all its words; the first line that fits counts.
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
    """Return the peak TFLOP/s of a GPU's dense matrix products; None if it is not listed."""
    words = set(re.split(r"[\s-]+", device_name))
    if "Laptop" in words:
        return None  # they are slower than their namesakes, and each maker sets another limit
    fits = (peak for name, peak in DENSE_PEAKS.items() if words.issuperset(name.split()))
    return next(fits, None)


def describe_attention(config: ModelConfig, accelerator: str, precision: str) -> str:
    """Describe which kernel each attention uses in training: `encoder flash, decoder ...`."""
    if not isinstance(config, TransformerConfig):
        return "additive"
    if config.kernel != "sdpa":
        return f"{config.kernel} kernel"
    dtypes = {"32-true": torch.float32, "16-mixed": torch.float16}
    dtype = dtypes.get(precision, torch.bfloat16)
    width, dropout = config.head_dim or config.d_model // config.n_heads, config.attention_dropout
    with torch.device("cuda" if accelerator == "gpu" else "cpu"):
        q, kv = (torch.zeros(2, heads, 8, width, dtype=dtype, requires_grad=True)
                 for heads in (config.n_heads, config.n_kv_heads or config.n_heads))  # fmt: skip
        padded = masks.padding(torch.ones(2, 8, dtype=torch.bool))
    of_source = fused_backend(q, kv, kv, padded, dropout)
    of_target = fused_backend(q, kv, kv, None, dropout, causal=True)
    text = f"encoder {of_source}, decoder {of_target}, cross-attention {of_source} kernel"
    if "math" not in (of_source, of_target):
        return text
    reason = f": no fast one takes attention_dropout={dropout} here" if dropout else ""
    return f"{text} (math is the slow one{reason})"


def peak_memory(device: str) -> int:
    """Return peak bytes so far: of the GPU on `cuda`, else of this process; 0 on Windows."""
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


def ran_out(error: BaseException) -> bool:
    """Tell whether an error says that the memory of the GPU or of the machine ran out."""
    by_text = isinstance(error, RuntimeError) and re.search(OUT_OF_MEMORY, str(error))
    return isinstance(error, MemoryError) or bool(by_text)
