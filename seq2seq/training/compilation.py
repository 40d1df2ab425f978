"""Compiling a model with torch.compile, in place."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from itertools import chain

import torch
from torch import nn

from seq2seq.data.collate import Batch
from seq2seq.errors import RunError

log = logging.getLogger(__name__)


def compile_model(
    model: nn.Module,
    device: torch.device,
    forward_backward: Callable[[Batch, bool], object],
    max_tokens: int,
) -> None:
    """Compile the layers of a model, and try them with one forward and one backward pass.

    All layers of one kind share a graph, so a deep model compiles as fast as a flat one; a model
    without a list of layers is compiled as a whole. All sizes are symbols in the graphs, so that
    few graphs serve batches of all shapes. Parameter names do not change.

    Args:
        forward_backward: runs both passes on a batch; its second argument says whether processes
            exchange the gradients.
        max_tokens: about so many positions has the trial: torch chooses kernels by the sizes that
            it sees first.

    Raises:
        RunError: torch cannot compile the model on this machine.
    """
    started = time.perf_counter()
    lists = (module for module in model.modules() if isinstance(module, nn.ModuleList))
    for part in [*chain.from_iterable(lists)] or [model]:
        part.compile(dynamic=True)
    try:
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            # No two of these sizes are equal, since torch would expect that of all batches.
            sentences = 2 * max(2, max_tokens // (2 * (29 + 31)))
            source, target = (
                torch.ones(sentences, n, dtype=torch.long, device=device) for n in (29, 31)
            )
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


def not_compiled() -> AbstractContextManager[None]:
    """Return a context in which layers run as if they were not compiled.

    A search would need graphs of its own, and compiling them takes longer than a validation.
    """
    stance: AbstractContextManager[None] = torch.compiler.set_stance("force_eager")
    return stance
