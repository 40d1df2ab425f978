"""The cores and the memory of this process, and settings of the libraries that torch uses."""

from __future__ import annotations

import ctypes
import os


def usable_cores() -> int:
    """Count the cores that this process may use; where the system cannot tell (macOS), all."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


# Environment variables that libraries read when torch loads them; values set by the user stay.
LIBRARY_SETTINGS = {
    # OpenMP's threads spin while they wait for each other, which takes cores from other processes.
    # Beside one busy process, `tiny` trained at 1,770 tokens/s, and at 2,770 with few turns of
    # spinning; alone it is as fast as before (6,760 and 6,930, two cores).
    "GOMP_SPINCOUNT": "2000",
    # oneDNN makes a kernel for each shape of a matrix product and by default keeps 1,024 of them,
    # but batches have more shapes. 300 steps of the demo in bf16 took 67 s, and 45 s with room for
    # all kernels. A kernel takes 1 to 3 MiB: a run with room for 20,000 held 5.9 GiB after 580
    # steps.
    "ONEDNN_PRIMITIVE_CACHE_CAPACITY": "4096",
}


def set_up_libraries() -> None:
    """Set `LIBRARY_SETTINGS` in the environment; call this before torch is imported."""
    for name, value in LIBRARY_SETTINGS.items():
        os.environ.setdefault(name, value)


def keep_freed_memory() -> None:
    """Tell glibc to keep freed memory instead of giving it back to the system.

    Each step of training or search frees large tensors and allocates others of the same sizes;
    touching fresh pages costs several times more than reusing old ones. Training on a CPU gets
    8-36 % faster. Without glibc, this does nothing.
    """
    largest = 2**31 - 1
    trim_threshold, top_pad, mmap_threshold = -1, -2, -3  # constants of malloc.h
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):
        return
    mallopt(mmap_threshold, largest)
    mallopt(trim_threshold, largest)
    mallopt(top_pad, 64 * 2**20)
