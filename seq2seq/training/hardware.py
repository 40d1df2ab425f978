"""What this machine has: device, precision, attention kernels, memory and its end."""

from __future__ import annotations

import os
import platform
import re
import resource
from pathlib import Path

import torch

from seq2seq.config import ModelConfig, TrainerConfig, TransformerConfig
from seq2seq.data.collate import Batch
from seq2seq.errors import ConfigError, RunError
from seq2seq.inference.precision import cpu_has
from seq2seq.model import masks
from seq2seq.model.fused_attention import fused_backend


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


# From this width on, bf16 gains on a core with AMX. Each new shape of a batch costs it some 10 ms
# for each kind of product, whose kernels are made on the spot: on Multi30k's batches, seconds of a
# step in fp32 / bf16 were 0.4 / 0.8 at width 128, 1.0 / 1.2 at 256, 5.9 / 2.5 at 512 (two cores).
# A rule and not a trial, so that two runs of the same settings are the same.
BF16_WIDTH = 512


def choose_precision(config: TrainerConfig, accelerator: str, model: ModelConfig) -> str:
    """`config.precision`, where auto is the fastest that is safe.

    That is bf16 on a GPU that has it and fp16 on others; on a CPU bf16 where it has instructions
    for it and the model is wide enough to gain from them, else fp32.

    Raises:
        ConfigError: the device lacks the precision asked for.
    """
    has_bf16 = accelerator == "gpu" and torch.cuda.get_device_capability()[0] >= 8
    if config.precision == "auto":
        if accelerator == "cpu":
            gains = model.d_model >= BF16_WIDTH and cpu_has_bf16()
            return "bf16-mixed" if gains else "32-true"
        return "bf16-mixed" if has_bf16 else "16-mixed"
    if config.precision == "16-mixed" and accelerator == "cpu":
        raise ConfigError(
            [
                "trainer.precision=16-mixed needs a GPU, and this run is on the CPU: use "
                "trainer.precision=32-true or bf16-mixed"
            ]
        )
    if config.precision == "bf16-mixed" and accelerator == "gpu" and not has_bf16:
        raise ConfigError(
            [
                f"trainer.precision=bf16-mixed: {torch.cuda.get_device_name()} has no bf16 "
                "arithmetic; use trainer.precision=16-mixed"
            ]
        )
    return config.precision


def cpu_has_bf16() -> bool:
    """Whether the CPU multiplies bf16 by itself (AMX, or AVX-512 BF16)."""
    return cpu_has("bfloat16")


def explain_precision(wanted: str, chosen: str, accelerator: str) -> str:
    """Why a precision was chosen, or what is to be said against the one asked for; or nothing."""
    if accelerator == "gpu":
        return ""
    if not cpu_has_bf16():
        slow = "slow, as this CPU has no instructions for bf16"
        return slow if chosen == "bf16-mixed" else ""
    if wanted != "auto":
        return ""
    if chosen == "bf16-mixed":
        return "chosen, as this CPU has instructions for bf16"
    return f"chosen, as bf16 gains with models of width {BF16_WIDTH} and more"


def allow_tf32(accelerator: str) -> None:
    """Let a GPU multiply fp32 matrices on its tensor cores.

    A CPU must not take the same setting: products would go through kernels that are made anew
    for each shape of a batch, and training would take three times as long.
    """
    torch.set_float32_matmul_precision("high" if accelerator == "gpu" else "highest")


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
    """Peak bytes so far: of the GPU on `cuda`, else of this process."""
    if device == "cuda":
        return torch.cuda.max_memory_allocated()
    try:
        status = Path("/proc/self/status").read_text(encoding="utf-8")
        return int(status.partition("VmHWM:")[2].split()[0]) * 1024
    except (OSError, IndexError, ValueError):  # not Linux; a child would show its parent's peak
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


# torch.OutOfMemoryError is what CUDA's allocator raises; others are a mere RuntimeError.
MESSAGES = "can't allocate memory|not enough memory|out of memory|STATUS_ALLOC_FAILED"


def ran_out(error: BaseException) -> bool:
    """Whether an error says that memory ran out, of the GPU or of the machine."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and re.search(MESSAGES, str(error)) is not None


def out_of_memory(
    batch: Batch | None,
    accelerator: str,
    *,
    max_tokens: int,
    accumulate: int,
    beam: int,
    batch_tokens: int,
    run_dir: Path | None = None,
    fine_tuning: bool = False,
) -> RunError:
    """What to say when memory ran out, and what a user can do.

    Args:
        batch: the one that was trained on; None in a validation.
        accelerator: that trained.
        max_tokens, accumulate: of the data and the trainer.
        beam, batch_tokens: of the search.
        run_dir: whose state is saved; None = nothing is.
        fine_tuning: the weights that training starts from say how large the model is.
    """
    smaller = [] if fine_tuning else ["a smaller model"]
    used = f"{_gib(*_peak_and_total(accelerator))} taken"
    if batch is None:
        changes = "; or ".join([f"a smaller decode.beam={beam}", *smaller])
        return RunError(
            f"out of memory in a validation, or before the first step ({used}). To go on: python "
            f"scripts/train.py resume={run_dir} decode.batch_tokens={max(1, batch_tokens // 2)}, "
            f"which translates half as much at once. For a new run: {changes}"
        )
    changes = "; or ".join(
        [
            f"lower data.max_tokens={max_tokens} and raise trainer.accumulate={accumulate} by the "
            "same factor, which learns the same",
            *smaller,
            "trainer.precision=bf16-mixed, if it is not that already",
        ]
    )
    sentences, source_length = batch.source.shape
    return RunError(
        f"out of memory with a batch of {sentences} sentences x {source_length} source x "
        f"{batch.labels.size(1)} target tokens ({used}). For a new run: {changes}"
    )


def _peak_and_total(accelerator: str) -> tuple[int, int]:
    """Bytes of the GPU or the machine: most that this process ever had, and all there are."""
    if accelerator == "gpu":
        return peak_memory("cuda"), torch.cuda.get_device_properties().total_memory
    return peak_memory("cpu"), os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _gib(peak: int, total: int) -> str:
    return f"up to {peak / 2**30:.1f} of {total / 2**30:.1f} GiB"
