"""A model from its settings."""

from __future__ import annotations

from seq2seq.config import ModelConfig, RecurrentConfig, TransformerConfig
from seq2seq.model.recurrent import RecurrentModel
from seq2seq.model.transformer import Transformer
from seq2seq.model.translation_model import TranslationModel


def build_model(
    config: ModelConfig, vocab_size: int, target_vocab_size: int | None = None
) -> TranslationModel:
    """The untrained model that a config describes; its arguments are those of the models."""
    if isinstance(config, RecurrentConfig):
        return RecurrentModel(config, vocab_size, target_vocab_size)
    assert isinstance(config, TransformerConfig)
    return Transformer(config, vocab_size, target_vocab_size)
