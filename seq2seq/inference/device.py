"""The device that a model translates on."""

from __future__ import annotations

import re

import torch

from seq2seq.errors import UserError


def choose_device(name: str = "auto") -> torch.device:
    """The device called `name`; auto is the GPU if there is one.

    Raises:
        UserError: there is no such device here.
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if name in ("cpu", "cpu:0"):
        return torch.device("cpu")
    if not (match := re.fullmatch("cuda(?::([0-9]{1,4}))?", name)):
        raise UserError(f"device {name!r} is not known: use auto, cpu or cuda")
    if not torch.cuda.is_available():
        raise UserError(f"device {name} was asked for, but torch sees no GPU here: use cpu")
    if int(match[1] or 0) >= (gpus := torch.cuda.device_count()):
        raise UserError(
            f"device {name} was asked for, but torch sees {gpus} here: use a number from 0 to "
            f"{gpus - 1}, as in cuda:0"
        )
    return torch.device(name)
