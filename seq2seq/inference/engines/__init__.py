"""What runs a model: token ids in, token ids out. Each engine is a file, with one protocol.

Engines are imported where they are asked for: torch alone takes longer to load than the model.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial
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
# What each engine knows; whether this device has it is seen when the model is loaded.
PRECISIONS = dict.fromkeys(("auto", "torch"), ("auto", "float32", "bfloat16", "float16")) | {
    "ctranslate2": ("auto", "float32", "bfloat16", "float16", "int16", "int8", "int8_float32",
                    "int8_bfloat16", "int8_float16"),
}  # fmt: skip


class Engine(Protocol):
    """Searches and scores. It holds no state between calls, so that threads may share it.

    Attributes:
        max_length: most tokens of a source or a target, end mark included.
        length_ratio: target tokens per source token, as in the training corpus.
    """

    max_length: int
    length_ratio: float

    def search(
        self, requests: Sequence[Request], config: DecodeConfig, progress: Progress = None
    ) -> list[list[Hypothesis]]:
        """Hypotheses for each request, best first; those beyond `config.n_best` came for free."""
        ...

    def score(self, pairs: Sequence[IdPair]) -> list[list[float]]:
        """Log probabilities of the tokens of each target, its end mark last."""
        ...

    def attention(self, pairs: Sequence[IdPair]) -> list[np.ndarray]:
        """For each pair how much each target token looked at each source token.

        Returns:
            Weights (T, S), end marks included on both sides; rows sum to 1.
        """
        ...


class BothEngines:
    """CTranslate2, and torch where it may find something else: by a rule, at the limit, or where an
    output is empty.

    See `ctranslate2.py`. Both are rare: what was degenerate, and what does not end. Torch is
    loaded when the first of them comes.
    """

    def __init__(self, quick: Engine, exact: Callable[[], Engine]):
        self._quick, self._exact = quick, cache(exact)
        self.max_length, self.length_ratio = quick.max_length, quick.length_ratio

    def search(
        self, requests: Sequence[Request], config: DecodeConfig, progress: Progress = None
    ) -> list[list[Hypothesis]]:
        ruled = config.no_repeat_ngram or config.min_length > 1 or config.min_ratio
        if ruled or any(one.prefix or one.banned for one in requests):
            return self._exact().search(requests, config, progress)
        # All that its beam holds, for what is empty took the place of something else there.
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

    def score(self, pairs: Sequence[IdPair]) -> list[list[float]]:
        return self._quick.score(pairs)

    def attention(self, pairs: Sequence[IdPair]) -> list[np.ndarray]:
        return self._quick.attention(pairs)


Loaded = tuple[Engine, Vocabularies, Trained]  # how it was trained is told by the first of several


def load_engine(
    paths: Sequence[str | Path], device: str, name: str, precision: str, cuda_graphs: bool
) -> Loaded:
    """Read the bundles of these folders, or runs; the first gives what they share.

    Raises:
        BundleError: nothing usable is there, or the vocabularies of several differ.
        UserError: the device, the engine or the precision is not there, or has no CUDA graphs.
    """
    if name == "auto":
        name, _ = choose_engine(paths, device, precision, ["CUDA graphs"] * cuda_graphs)
        if name == "ctranslate2" and not is_exported(Path(paths[0])):
            quick, vocabularies, made = load_engine(paths, device, name, precision, cuda_graphs)
            exact = partial(load_engine, paths, "cpu", "torch", "float32", cuda_graphs)
            return BothEngines(quick, lambda: exact()[0]), vocabularies, made
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
    """The engine for `auto`, and why it is that one.

    CTranslate2 starts without torch, and computes in float32 what torch does; so it is taken where
    nothing is asked that it does otherwise (`BothEngines` has the exception).

    Args:
        lacking: what is asked for that CTranslate2 has not, or not the same each time, in words.
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
    except UserError as error:  # which torch tells again, if it cannot run the model either
        return "torch", str(error)
    return "ctranslate2", "it is installed, and gives what torch gives, sooner"


def device_number(name: str, gpus: int, who: str) -> tuple[str, int]:
    """Kind and number of a device, cpu or cuda; auto is the first GPU if there is one.

    Args:
        name: auto, cpu, cuda or cuda:N.
        gpus: how many there are.
        who: says so.

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
