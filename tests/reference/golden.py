"""The golden vectors of attention in `shared/golden`, which not every checkout has beside it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from seq2seq.model.attention import MultiHeadAttention

FOLDER = Path(__file__).resolve().parents[2] / ".." / "shared" / "golden"


def load(name: str) -> dict[str, Any]:
    """One case; skips the calling test where there are no golden vectors."""
    path = FOLDER / f"{name}.json"
    if not path.is_file():
        pytest.skip(f"no golden vectors in {FOLDER}")
    case: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return case


def tolerance(case: dict[str, Any], dtype: torch.dtype) -> dict[str, float]:
    return {"rtol": 0.0, "atol": case["tolerance"][str(dtype).removeprefix("torch.")]}


def tensor(values: Any, dtype: torch.dtype) -> Tensor:
    return torch.tensor(values, dtype=dtype)


def key_padding(case: dict[str, Any]) -> Tensor | None:
    mask = case["masks"]["key_padding_mask"]
    return None if mask is None else torch.tensor(mask)


def attention_module(case: dict[str, Any], dtype: torch.dtype) -> MultiHeadAttention:
    """Our module with the weights of a case (which are (in, out); a null bias is zero)."""
    config, weights = case["config"], case["weights"]
    d_model = len(weights["W_q"])
    attention = MultiHeadAttention(d_model, config["num_heads"], config["num_kv_heads"]).to(dtype)
    with torch.no_grad():
        for letter in "qkvo":
            linear = getattr(attention, {"o": "out_proj"}.get(letter, f"{letter}_proj"))
            linear.weight.copy_(tensor(weights[f"W_{letter}"], dtype).T)
            bias = weights[f"b_{letter}"]
            linear.bias.copy_(
                torch.zeros_like(linear.bias) if bias is None else tensor(bias, dtype)
            )
    return attention.eval()
