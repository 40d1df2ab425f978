"""A bundle of some words and a random model: what it says makes no sense, but is text."""

from __future__ import annotations

from typing import Any

import torch

from seq2seq.bundle.bundle import Bundle
from seq2seq.config import DecodeConfig, TransformerConfig
from seq2seq.data.tokenizer import Tokenizer
from seq2seq.data.vocabularies import Vocabularies
from seq2seq.inference.engines.torch import TorchEngine
from seq2seq.inference.translator import Translator
from seq2seq.model.transformer import Transformer

TEXTS = ["the big old house is here", "a man reads", "la maison est ici", "un homme lit"]


def tiny_bundle(seed: int = 0, **sizes: Any) -> Bundle:
    """The same for the same arguments."""
    tokenizer = Tokenizer.train(TEXTS * 5, 320)
    defaults = {"d_model": 16, "n_heads": 2, "d_ff": 32, "encoder_layers": 1,
                "decoder_layers": 2, "max_length": 24}  # fmt: skip
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = Transformer(TransformerConfig(**(defaults | sizes)), tokenizer.vocab_size).eval()
    decode = DecodeConfig(beam=3, max_ratio=1.0, max_extra=4)
    return Bundle(model, Vocabularies(tokenizer, tokenizer), decode, {"step": 1, "scores": {}})


def translator_of(bundle: Bundle) -> Translator:
    engine = TorchEngine([bundle.model])
    return Translator(engine, bundle.vocabularies, bundle.decode, bundle.normalise)
