"""Compiling the layers of a transformer with torch.compile, in place."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import nn

from seq2seq.data.collate import Batch
from seq2seq.errors import RunError
from seq2seq.model.translation_model import TranslationModel

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
        positions: of the trial, source and target together, as many as batches of the run have:
            torch makes other kernels for much larger or smaller sizes than those of the trial.

    Raises:
        RunError: torch cannot compile the layers on this machine.
    """
    started = time.perf_counter()
    for stack in (part for part in model.children() if isinstance(part, nn.ModuleList)):
        for layer in stack:
            layer.compile(dynamic=True)
    # All sizes differ, because torch takes equal sizes for one symbol.
    longest = min(LENGTH, model.config.max_length)
    sentences = positions // (2 * longest - 2) | 1  # odd, so that no kernel needs even numbers
    sentences = sentences if sentences > longest else longest + 2
    try:
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            source, target = (
                torch.ones(sentences, n, dtype=torch.long, device=device)
                for n in (longest - 2, longest)
            )
            trial = Batch(source, target, target, source.numel(), target.numel())
            forward_backward(trial, False)
    except Exception as error:  # compilers fail in many ways
        first_paragraph = " ".join(str(error).partition("\n\n")[0].split())[:300]
        raise RunError(
            f"trainer.compile=true: torch cannot compile the layers here ({type(error).__name__}: "
            f"{first_paragraph}). Leave it out, or repair the compiler"
        ) from error
    model.zero_grad()
    log.info("compile     compiled in %.1f s", time.perf_counter() - started)


@contextmanager
def not_compiled() -> Iterator[None]:
    """Run layers as if they were not compiled.

    Validation, search and figures would need graphs of their own, and compiling these takes longer
    than a validation.
    """
    with torch.compiler.set_stance("force_eager"):
        yield
