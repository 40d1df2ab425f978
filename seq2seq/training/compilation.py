"""Compiling a model with torch.compile, in place, or going on without."""

from __future__ import annotations

import logging
import time
from itertools import product
from typing import Any

import torch
from torch._dynamo.utils import counters

from seq2seq.model.translation_model import TranslationModel

log = logging.getLogger(__name__)

TRIAL = (3, 5, 7)  # sentences, source and target tokens: sizes that no graph takes for constants


def compile_model(model: TranslationModel, **options: Any) -> bool:
    """Compile calls of a model, and try them once, forwards and backwards.

    Names of parameters stay what they are, and search is not compiled. Numbers of sentences and
    tokens are symbols in the graphs, so that few graphs serve batches of all shapes. Returns
    whether it worked; if not, the model is as before, and a message says why.

    Args:
        model: in training mode, on its device; call this in the autocast context of training.
        options: further arguments of torch.compile.
    """
    before, started = _graphs(), time.perf_counter()
    model.compile(**options)
    try:
        _try(model)
    except Exception as error:  # compilers fail in many ways, and training can do without
        model._compiled_call_impl = None  # torch has no public way back
        log.warning("compile     failed, training goes on without: %s", _in_one_line(error))
        return False
    seconds = time.perf_counter() - started
    log.info("compile     compiled in %.1f s, %d graphs", seconds, _graphs() - before)
    return True


def _try(model: TranslationModel) -> None:
    """One forward and backward pass that leaves no trace: no gradients, no random numbers used."""
    sentences, source_length, target_length = TRIAL
    device = next(model.parameters()).device
    source = torch.ones(sentences, source_length, dtype=torch.long, device=device)
    target = torch.ones(sentences, target_length, dtype=torch.long, device=device)
    real = source != 0
    for tensor, dimension in product((source, real, target), (0, 1)):
        torch._dynamo.maybe_mark_dynamic(tensor, dimension)
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        hidden_BTD = model(source, real, target)
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    torch.autograd.grad(hidden_BTD.float().sum(), weights, allow_unused=True)


def _graphs() -> int:
    return counters["stats"]["unique_graphs"]


def _in_one_line(error: Exception) -> str:
    """The beginning of a message; those of compilers have pages of advice behind it."""
    text = " ".join(str(error).partition("\n\n")[0].split())
    return f"{type(error).__name__}: {text[:300]}"
