"""Compiling the layers of a transformer with torch.compile, in place."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

import torch
from torch import nn

from seq2seq.data.collate import Batch
from seq2seq.errors import RunError
from seq2seq.model.translation_model import TranslationModel
from seq2seq.training.hardware import ran_out

log = logging.getLogger(__name__)

LENGTH = 31  # tokens of the longer side in the trial


def compile_layers(
    model: TranslationModel,
    device: torch.device,
    forward_backward: Callable[[Batch, bool], object],
    positions: int,
) -> None:
    """Compile the layers of a model, and try them with one forward and one backward pass.

    Layers of one kind share their graphs, so a deep model compiles as fast as a shallow one. All
    sizes are symbols in the graphs, so that few graphs serve batches of all shapes. Parameter names
    do not change.

    Args:
        model: a transformer.
        forward_backward: runs both passes on a batch; its second argument says whether processes
            exchange the gradients, which a trial need not.
        positions: most of a batch, source and target together. The trial has as many: for much
            larger or smaller sizes than its own, torch makes other graphs.

    Raises:
        RunError: torch cannot compile the layers on this machine.
        RuntimeError, MemoryError: memory ran out.
    """
    started = time.perf_counter()
    for stack in (part for part in model.children() if isinstance(part, nn.ModuleList)):
        for layer in stack:
            layer.compile(dynamic=True)
    try:
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            forward_backward(_trial(positions, model.config.max_length).to(device), False)
    except Exception as error:  # compilers fail in many ways
        if ran_out(error):
            raise
        first_paragraph = " ".join(str(error).partition("\n\n")[0].split())[:300]
        raise RunError(
            f"trainer.compile=true: torch cannot compile the layers here ({type(error).__name__}: "
            f"{first_paragraph}). Leave it out, or repair the compiler"
        ) from error
    model.zero_grad()
    log.info("compile     compiled in %.1f s", time.perf_counter() - started)


def _trial(positions: int, max_length: int) -> Batch:
    """Make a batch of which all sizes differ, because torch takes equal sizes for one symbol."""
    target_length = min(LENGTH, max_length)
    source_length = target_length - 2
    sentences = max(positions // (source_length + target_length), target_length + 1)
    source, target = (
        torch.ones(sentences, length, dtype=torch.long) for length in (source_length, target_length)
    )
    return Batch(source, target, target, source.numel(), target.numel())
