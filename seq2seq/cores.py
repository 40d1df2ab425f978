"""The cores and the memory of this process, and how the libraries below torch use them."""

from __future__ import annotations

import ctypes
import os


def usable_cores() -> int:
    """Those that this process may use; all of the machine where nobody knows (macOS)."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


# Read by libraries when torch loads them; what the user has set counts more.
LIBRARY_SETTINGS = {
    # OpenMP's threads spin where they wait for each other, which keeps other processes from
    # working: `tiny` trained at 1,770 tokens/s beside one busy process, and at 2,770 with few
    # turns; alone it is as fast as before (6,760 and 6,930, two cores).
    "GOMP_SPINCOUNT": "2000",
    # oneDNN makes a kernel for each shape of a product and keeps 1,024 of them; batches have more
    # shapes. 300 steps of the demo in bf16 took 67 s, and 45 s with room for all; but a kernel
    # takes 1 to 3 MiB: a run that kept 20,000 held 5.9 GiB after 580 steps.
    "ONEDNN_PRIMITIVE_CACHE_CAPACITY": "4096",
}


def set_up_libraries() -> None:
    """Tell the libraries below torch how to use the cores; call it before torch is imported."""
    for name, value in LIBRARY_SETTINGS.items():
        os.environ.setdefault(name, value)


def keep_freed_memory() -> None:
    """Tell glibc to keep freed memory instead of giving it back to the system.

    A step of training or search frees and takes the same large tensors again and again; touching
    fresh pages costs several times more than using old ones. Worth 8-36 % of the speed of training
    on a CPU; does nothing where there is no glibc.
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
