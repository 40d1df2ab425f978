"""Settings that once had another name: stored ones are read, given ones are refused.

Runs, bundles and checkpoints go on saying what was called otherwise when they were made;
command lines and YAML files of today say what it is called today.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

RENAMED = {  # by what was
    "optim.final_lr": "optim.final_lr_ratio",
    "trainer.on_bad_step": "trainer.on_loss_spike",
    "trainer.spike": "trainer.max_loss_spike",
}
REMOVED = {  # and what to do instead
    "trainer.split": "raise trainer.accumulate and lower data.max_tokens by the same factor",
    "trainer.halve_on_oom": "raise trainer.accumulate and lower data.max_tokens when memory is out",
}


def migrated(stored: Mapping[str, Any]) -> dict[str, Any]:
    """Stored settings, or some groups of them, by the names of today; those removed are left out.

    Args:
        stored: by group, such as `{"optim": {"final_lr": 0.1}}`; it is not changed.
    """
    found = dict(stored)
    for section, settings in stored.items():
        if isinstance(settings, Mapping):
            found[section] = {
                RENAMED.get(f"{section}.{name}", str(name)).removeprefix(f"{section}."): value
                for name, value in settings.items()
                if f"{section}.{name}" not in REMOVED
            }
    return found


def refusal(key: str) -> str | None:
    """What to say about an old name that is given today; None for all others."""
    if key in RENAMED:
        return f"{key} is now {RENAMED[key]}"
    if key in REMOVED:
        return f"{key} is gone: {REMOVED[key]}"
    return None
