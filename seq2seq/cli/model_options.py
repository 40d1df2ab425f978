"""Options of commands that run a model: which one, and what computes it."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from typing import Any

from seq2seq.errors import nearest

ENGINES = ("torch", "ctranslate2")
# What each engine knows; whether this device has it is seen when the model is loaded. Those of
# torch are `inference.precision.PRECISIONS`, which imports torch.
PRECISIONS = {
    "torch": ("auto", "float32", "bfloat16", "float16", "int8"),
    "ctranslate2": ("auto", "float32", "bfloat16", "float16", "int16", "int8", "int8_float32",
                    "int8_bfloat16", "int8_float16"),
}  # fmt: skip


def add_model_options(add: Callable[..., Any]) -> None:
    """Add them to a parser, or a group of it, by its `add_argument`."""
    add("--model", action="append", metavar="DIR", help="folder of a run or a bundle, or "
        "general, the model that is shipped; several times = their ensemble")  # fmt: skip
    add("--device", default="auto", help="auto, cpu or cuda")
    add("--engine", choices=ENGINES, default="torch", help="what runs the model")
    add("--precision", default="auto", metavar="NAME", help="of the arithmetic: auto, float32, "
        "bfloat16, float16 or int8, as far as the device and the engine have it")  # fmt: skip


def model_problems(options: argparse.Namespace) -> Iterator[str]:
    """What is wrong with them, as far as that can be seen without the model."""
    known = PRECISIONS[options.engine]
    if options.precision not in known:
        yield f"--precision {options.precision} is not known: {nearest(options.precision, known)}"
