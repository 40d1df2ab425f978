"""Where CTranslate2 computes: the device, its precision, how many threads."""

from __future__ import annotations

import os
import re

from seq2seq.cores import usable_cores
from seq2seq.errors import UserError
from seq2seq.inference.ctranslate2_folder import require_ctranslate2


def choose_device(name: str, precision: str = "auto") -> tuple[str, int]:
    """Its kind and its number; auto is the GPU if there is one.

    Raises:
        UserError: it is not there, or not fast with this precision.
    """
    gpus = require_ctranslate2().get_cuda_device_count()
    if name == "auto":
        name = "cuda" if gpus else "cpu"
    if not re.fullmatch(r"cpu(:0)?|cuda(:\d+)?", name):
        raise UserError(f"device {name!r} is not known: use auto, cpu or cuda")
    kind, _, number = name.partition(":")
    index = int(number or 0)
    if kind == "cuda" and index >= gpus:
        there = ", ".join(["cpu", *(f"cuda:{i}" for i in range(gpus))])
        raise UserError(
            f"device {name} was asked for, but ctranslate2 finds no such GPU: use {there}"
        )
    known = require_ctranslate2().get_supported_compute_types(kind, index)
    if precision != "auto" and precision not in known:
        raise UserError(
            f"precision {precision} is not fast on this {kind} with ctranslate2: choose one of "
            f"auto, {', '.join(sorted(known))}"
        )
    return kind, index


def precision_on(device: str, precision: str) -> str:
    """The name of a precision; auto is what the device makes of the stored weights.

    Raises:
        UserError: as `choose_device`.
    """
    kind, _ = choose_device(device, precision)
    return f"auto on {kind}" if precision == "auto" else precision


def threads() -> int:
    """As many as OMP_NUM_THREADS allows; else one for each core."""
    named = os.environ.get("OMP_NUM_THREADS", "")
    return int(named) if named.isdecimal() and int(named) else usable_cores()
