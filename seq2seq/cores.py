"""How many cores there are for this process."""

from __future__ import annotations

import os


def usable_cores() -> int:
    """Those that this process may use; all of the machine where nobody knows (macOS)."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
