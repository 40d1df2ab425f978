"""Engines run a model: token ids in, token ids out. Each engine is a file; all have one protocol.

An engine is imported only when it is asked for: torch alone takes longer to load than the model.
Start reading at `Engine`, the protocol, and `load_engine`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Protocol

import numpy as np

from seq2seq.bundle.config import Trained
from seq2seq.bundle.find import is_exported
from seq2seq.config import DecodeConfig
from seq2seq.data.vocabularies import Vocabularies
from seq2seq.decoding.hypothesis import Hypothesis
from seq2seq.decoding.request import IdPair, Request
from seq2seq.errors import UserError, nearest

Progress = Callable[[int], object] | None
# What each engine knows; loading a model shows whether the device supports it.
PRECISIONS = dict.fromkeys(("auto", "torch"), ("auto", "float32", "bfloat16", "float16")) | {
    "ctranslate2": ("auto", "float32", "bfloat16", "float16", "int16", "int8", "int8_float32",
                    "int8_bfloat16", "int8_float16"),
}  # fmt: skip


class Engine(Protocol):
    """Searches and scores. It keeps no state between calls, so threads may share it.

    Attributes:
        max_length: most tokens of a source or a target, end mark included.
        length_ratio: target tokens per source token, as in the training corpus.
    """

    max_length: int
    length_ratio: float

    def search(
        self, requests: Sequence[Request], config: DecodeConfig, progress: Progress = None
    ) -> list[list[Hypothesis]]:
        """Return hypotheses for each request, best first; there may be more than `n_best`."""
        ...

    def score(self, pairs: Sequence[IdPair]) -> list[list[float]]:
        """Return the log probabilities of the tokens of each target, the end mark last."""
        ...

    def attention(self, pairs: Sequence[IdPair]) -> list[np.ndarray]:
        """Return for each pair how much each target token attends to each source token.

        Returns:
            Weights (T, S), end marks included on both sides; rows sum to 1.
        """
        ...


class BothEngines:
    """CTranslate2, with torch for searches that may differ: those with a rule, with an output at
    the limit of length, or with an empty output.

    `ctranslate2.py` explains the differences. Such searches are rare: a degenerate translation is
    searched again, or an output does not end. The first of them loads torch.
    """

    def __init__(self, quick: Engine, exact: Callable[[], Engine]):
        self._quick, self._exact = quick, exact
        self.max_length, self.length_ratio = quick.max_length, quick.length_ratio
        self.score, self.attention = quick.score, quick.attention

    def search(
        self, requests: Sequence[Request], config: DecodeConfig, progress: Progress = None
    ) -> list[list[Hypothesis]]:
        ruled = config.no_repeat_ngram or config.min_length > 1 or config.min_ratio
        if ruled or any(one.prefix or one.banned for one in requests):
            return self._exact().search(requests, config, progress)
        # Ask for the whole beam: an empty output in it has taken the place of another output.
        every = config.beam if config.strategy == "beam" else config.n_best
        free = replace(config, min_length=0, n_best=every)
        found, unsure = self._quick.search(requests, free, progress), list[int]()
        for row, own in enumerate(found):
            empty = config.min_length and not all(one.tokens for one in own)
            if empty or sum(one.finished for one in own[: config.n_best]) < config.n_best:
                unsure.append(row)
        if unsure:
            again = self._exact().search([requests[row] for row in unsure], config)
            for row, own in zip(unsure, again, strict=True):
                found[row] = own
        return found


Loaded = tuple[Engine, Vocabularies, Trained]  # `Trained` is that of the first model


def load_engine(
    paths: Sequence[str | Path], device: str, name: str, precision: str, cuda_graphs: bool
) -> Loaded:
    """Load an engine with the models of bundles or runs; the first gives what they share.

    Raises:
        BundleError: there is no usable bundle, or the vocabularies of several differ.
        UserError: the device, engine or precision is not available, or has no CUDA graphs.
    """
    if name == "auto":
        name, _ = choose_engine(paths, device, precision, ["CUDA graphs"] * cuda_graphs)
        if name == "ctranslate2" and not is_exported(Path(paths[0])):
            quick, vocabularies, made = load_engine(paths, device, name, precision, cuda_graphs)
            exact = cache(lambda: load_engine(paths, "cpu", "torch", "float32", cuda_graphs)[0])
            return BothEngines(quick, exact), vocabularies, made
    if name == "ctranslate2":
        from seq2seq.inference.engines import ctranslate2

        if cuda_graphs:
            raise UserError("CUDA graphs are for the engine torch: leave them out")
        return ctranslate2.load(paths, device, precision)
    if name != "torch":
        raise UserError(f"engine {name} is not known: {nearest(name, PRECISIONS)}")
    from seq2seq.inference.engines import torch

    return torch.load(paths, device, precision, cuda_graphs)


def choose_engine(
    paths: Sequence[str | Path], device: str, precision: str, lacking: Sequence[str] = ()
) -> tuple[str, str]:
    """Choose the engine for `auto`; return it and the reason.

    CTranslate2 starts without torch, and computes in float32 what torch does. So it is chosen
    unless something is asked for that it does differently (`BothEngines` has the exception).

    Args:
        lacking: in words, what is asked for that CTranslate2 lacks or does differently.
    """
    from importlib.util import find_spec

    from seq2seq.bundle.ctranslate2 import exported, require_ctranslate2

    if len(paths) == 1 and is_exported(Path(paths[0])):
        return "ctranslate2", "the model was exported for it"
    if len(paths) > 1:
        return "torch", "several models vote"
    if lacking:
        return "torch", f"ctranslate2 has no {', no '.join(lacking)}"
    if precision not in ("auto", "float32"):
        return "torch", f"ctranslate2 was compared in float32, and {precision} is asked for"
    if find_spec("ctranslate2") is None:
        return "torch", "ctranslate2 is not installed"
    try:
        if device not in ("auto", "cpu") or require_ctranslate2().get_cuda_device_count():
            return "torch", "on a GPU it computes in 16 bits"
        exported(Path(paths[0]))
    except UserError as error:  # torch raises it again if it cannot run the model, either
        return "torch", str(error)
    return "ctranslate2", "it is installed, and gives what torch gives, sooner"


def device_number(name: str, gpus: int, who: str) -> tuple[str, int]:
    """Return the kind, cpu or cuda, and number of a device; auto is the first GPU if there is one.

    Args:
        name: auto, cpu, cuda or cuda:N.
        gpus: the number of GPUs.
        who: the library that counts them, for the error message.

    Raises:
        UserError: there is no such device here.
    """
    if name == "auto":
        return ("cuda" if gpus else "cpu"), 0
    match = re.fullmatch(r"(cpu|cuda)(?::([0-9]{1,4}))?", name)
    if match is None or (match[1] == "cpu" and int(match[2] or 0)):
        raise UserError(f"device {name!r} is not known: use auto, cpu or cuda")
    kind, number = match[1], int(match[2] or 0)
    if kind == "cuda" and number >= gpus:
        there = ", ".join(["cpu", *(f"cuda:{i}" for i in range(gpus))])
        raise UserError(f"device {name} was asked for, but {who} finds no such GPU: use {there}")
    return kind, number
