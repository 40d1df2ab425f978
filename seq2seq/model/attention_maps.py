"""What a model attends to: the weights of all its attention modules for given sentences."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Collection
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from seq2seq.model.attention import MultiHeadAttention
from seq2seq.model.recurrent import AdditiveAttention
from seq2seq.model.translation_model import TranslationModel

HOOKING = threading.Lock()  # torch numbers hooks without a lock: two could get one number


@torch.no_grad()
def attention_maps(
    model: TranslationModel,
    source_BS: Tensor,
    source_real_BS: Tensor,
    target_BT: Tensor,
    names: Collection[str] | None = None,
) -> dict[str, Tensor]:
    """Return attention weights by the name of the module that made them.

    Args:
        model: in evaluation mode.
        source_BS, source_real_BS, target_BT: as `TranslationModel.forward` takes them.
        names: modules whose weights are returned; None = all.

    Returns:
        (B, H, queries, keys) for each module, such as `decoder.3.cross_attention`. Additive
        attention has one head.

    Raises:
        ValueError: the model is in training mode, where dropout falsifies the deeper maps.
    """
    if model.training:
        raise ValueError("dropout would falsify the maps: call model.eval() first")
    parts: dict[str, list[Tensor]] = defaultdict(list)
    mine = threading.get_ident()

    def keep(name: str, module: nn.Module, *call: Any) -> None:
        if threading.get_ident() != mine:
            return  # another thread runs the same model
        args, kwargs, output = call
        if isinstance(module, MultiHeadAttention):
            parts[name].append(module.weights(*args, **kwargs))
        else:
            parts[name].append(output[1][:, None])  # called for one target token at a time

    with HOOKING:
        hooks = [
            module.register_forward_hook(partial(keep, name), with_kwargs=True)
            for name, module in model.named_modules()
            if isinstance(module, MultiHeadAttention | AdditiveAttention)
            and (names is None or name in names)
        ]
    try:
        model(source_BS, source_real_BS, target_BT)
    finally:
        with HOOKING:
            for hook in hooks:
                hook.remove()
    return {name: torch.cat(weights, dim=2) for name, weights in parts.items()}


def cross_attentions(model: TranslationModel) -> list[str]:
    """Return the names of the modules by which the target reads the source, lowest layer first."""
    return [
        name
        for name, module in model.named_modules()
        if isinstance(module, AdditiveAttention) or name.endswith(".cross_attention")
    ]
