"""The cores of this process: how many there are, and how libraries use them."""

from __future__ import annotations

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
    # oneDNN makes a kernel for each shape of a product; with room for few of them, 300 steps of
    # the demo in bf16 took 67 s, and 45 s with this.
    "ONEDNN_PRIMITIVE_CACHE_CAPACITY": "20000",
}


def set_up_libraries() -> None:
    """Tell the libraries below torch how to use the cores; call it before torch is imported."""
    for name, value in LIBRARY_SETTINGS.items():
        os.environ.setdefault(name, value)
