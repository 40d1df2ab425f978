"""The state of every random generator of a process, as values that a checkpoint can hold."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import torch

from seq2seq.data.fingerprint import fingerprint


def random_state() -> dict[str, Any]:
    """Of torch (CPU, and this process's GPU), numpy and Python: tensors, lists and numbers."""
    arrays: dict[str, Any] = np.random.get_state(legacy=False)
    version, internal, gauss_next = random.getstate()
    return {
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state() if torch.cuda.is_available() else None,
        "numpy": arrays | {"state": {**arrays["state"], "key": arrays["state"]["key"].tolist()}},
        "python": [version, list(internal), gauss_next],
    }


def set_random_state(state: dict[str, Any]) -> None:
    """Go on as the process whose state it is; a GPU's is left out where there is none."""
    torch.set_rng_state(state["torch"])
    if state["cuda"] is not None and torch.cuda.is_available():
        torch.cuda.set_rng_state(state["cuda"])
    np.random.set_state(state["numpy"])
    version, internal, gauss_next = state["python"]
    random.setstate((version, tuple(internal), gauss_next))


def seed_everything(seed: int) -> None:
    """Seed all generators of this process."""
    torch.manual_seed(seed)  # the GPU's too
    np.random.seed(seed % 2**32)
    random.seed(seed)


def seed_process(seed: int, rank: int, step: int) -> None:
    """Seed all generators of one process, unlike those of the others and of other steps."""
    seed_everything(int(fingerprint([seed, rank, step]), 16))
