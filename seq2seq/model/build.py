"""Build a model from its settings."""

from __future__ import annotations

from typing import Any

from torch import nn
from torch.overrides import TorchFunctionMode

from seq2seq.config import ModelConfig, RecurrentConfig, TransformerConfig
from seq2seq.model.recurrent import RecurrentModel
from seq2seq.model.transformer import Transformer
from seq2seq.model.translation_model import TranslationModel


def build_model(
    config: ModelConfig, vocab_size: int, target_vocab_size: int | None = None
) -> TranslationModel:
    """Build the untrained model that a config describes; arguments as for `TranslationModel`."""
    if isinstance(config, RecurrentConfig):
        return RecurrentModel(config, vocab_size, target_vocab_size)
    assert isinstance(config, TransformerConfig)
    return Transformer(config, vocab_size, target_vocab_size)


class Uninitialised(TorchFunctionMode):
    """A context for building a model whose weights are read later: none are drawn or scaled.

    Drawing weights takes longer than reading them, and on the meta device torch first loads 800
    modules to draw.
    """

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        own = args[0] if args else kwargs.get("tensor")
        in_place = func.__name__.endswith("_") and not func.__name__.endswith("__")
        return own if in_place and isinstance(own, nn.Parameter) else func(*args, **kwargs)
