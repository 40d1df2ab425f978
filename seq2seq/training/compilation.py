"""Compiling a model with torch.compile, in place."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

import torch
from torch import nn

from seq2seq.data.collate import Batch
from seq2seq.errors import RunError

log = logging.getLogger(__name__)


def compile_model(
    model: nn.Module, device: torch.device, forward_backward: Callable[[Batch, bool], object]
) -> None:
    """Compile the calls of a model, and try them with one forward and one backward pass.

    Parameter names do not change, and search is not compiled. All sizes are symbols in the graphs,
    so that few graphs serve batches of all shapes.

    The trial runs through DDP like a real step, but exchanges no gradients. So torch's DDPOptimizer
    cuts the graph where DDP sends gradients, and real steps exchange them in the backward pass.

    Args:
        forward_backward: runs both passes on a batch; its second argument says whether processes
            exchange the gradients.

    Raises:
        RunError: torch cannot compile the model on this machine.
    """
    started = time.perf_counter()
    model.compile(dynamic=True)
    try:
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            # Three sentences of 5 and 7 tokens: torch treats none of these sizes as a constant.
            source, target = (torch.ones(3, n, dtype=torch.long, device=device) for n in (5, 7))
            trial = Batch(source, target, target, source.numel(), target.numel())
            forward_backward(trial, False)
    except Exception as error:  # compilers fail in many ways
        first_paragraph = " ".join(str(error).partition("\n\n")[0].split())[:300]
        raise RunError(
            f"trainer.compile=true: torch cannot compile the model here ({type(error).__name__}: "
            f"{first_paragraph}). Leave it out, or repair the compiler"
        ) from error
    model.zero_grad()
    log.info("compile     compiled in %.1f s", time.perf_counter() - started)
