"""A translator around a random model: what must hold whatever a model says is tested with it."""

from __future__ import annotations

from functools import cache

import torch

from seq2seq.config import DecodeConfig, TransformerConfig
from seq2seq.data.tokenizer import Tokenizer
from seq2seq.data.vocabularies import Vocabularies
from seq2seq.inference.engines.torch import TorchEngine
from seq2seq.inference.translator import Translator
from seq2seq.model.transformer import Transformer

TEXTS = ["the big old house is here", "a man reads", "la maison est ici", "un homme lit"]


@cache
def tiny_translator(limit: int = 48) -> Translator:
    """One that reads at most so many tokens; its outputs are nonsense, and mostly degenerate."""
    tokenizer = Tokenizer.train(TEXTS * 5, 320)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        config = TransformerConfig(
            d_model=16, n_heads=2, d_ff=32, encoder_layers=1, decoder_layers=1, max_length=limit
        )
        model = Transformer(config, tokenizer.vocab_size).eval()
    decode = DecodeConfig(beam=2, max_ratio=1.0, max_extra=4)
    both = Vocabularies(tokenizer, tokenizer)
    return Translator(TorchEngine([model]), both, decode, ["nfc", "controls", "spaces"])
