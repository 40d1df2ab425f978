"""Small random models whose every parameter matters."""

from __future__ import annotations

from typing import Any

import torch
import tutorials
from torch import Tensor

from seq2seq.config import RecurrentConfig, TransformerConfig
from seq2seq.model import masks
from seq2seq.model.attention import MultiHeadAttention
from seq2seq.model.kv_cache import KVCache
from seq2seq.model.recurrent import RecurrentModel
from seq2seq.model.transformer import Transformer

SIZES: dict[str, Any] = {
    "d_model": 16,
    "n_heads": 4,
    "d_ff": 24,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "dropout": 0.0,
    "max_length": 48,
}


def tiny_config(**changes: Any) -> TransformerConfig:
    return TransformerConfig(**{**SIZES, **changes})


def shake(module: torch.nn.Module, seed: int) -> None:
    """Move biases and norms off their initial zeros and ones, which would hide mistakes."""
    draw = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.dim() == 1:
                parameter += 0.3 * torch.randn(parameter.shape, generator=draw)


def tiny_transformer(seed: int = 0, vocab_size: int = 13, **changes: Any) -> Transformer:
    """A transformer in evaluation mode, the same for the same arguments."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = Transformer(tiny_config(**changes), vocab_size)
    shake(model, seed)
    return model.eval()


RECURRENT_SIZES: dict[str, Any] = {
    "d_model": 8,
    "d_attention": 6,
    "dropout": 0.0,
    "max_length": 48,
}


def tiny_recurrent(seed: int = 0, vocab_size: int = 13, **changes: Any) -> RecurrentModel:
    """A recurrent model in evaluation mode, the same for the same arguments."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = RecurrentModel(RecurrentConfig(**{**RECURRENT_SIZES, **changes}), vocab_size)
    shake(model, seed)
    return model.eval()


def restless_transformer(seed: int = 3) -> Transformer:
    """One that neither ends at once nor repeats itself: its outputs are of many lengths.

    Strong positions let every step choose another word, and the source has a strong say.
    """
    model = tiny_transformer(seed, tie_embeddings="none", positions="learned")
    with torch.no_grad():
        model.target_embedding.positions.embedding.weight *= 6
        model.output.weight *= 2
        for layer in model.decoder:
            layer.cross_attention.out_proj.weight *= 4
    return model


def random_ids(seed: int, *shape: int, vocab_size: int = 13) -> Tensor:
    """Ids of words (no special tokens)."""
    return torch.randint(3, vocab_size, shape, generator=torch.Generator().manual_seed(seed))


def real_positions(lengths: list[int], longest: int | None = None) -> Tensor:
    """(B, longest) True in the first `lengths[b]` places of row b."""
    longest = max(lengths) if longest is None else longest
    return torch.arange(longest) < torch.tensor(lengths)[:, None]


def normal(seed: int, *shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def tiny_attention(
    *sizes: int, seed: int = 0, source_dim: int | None = None, bias: bool = True, **options: Any
) -> MultiHeadAttention:
    """Attention in double precision and evaluation mode, the same for the same arguments."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        attention = MultiHeadAttention(*sizes, **options)
        if not bias:
            tutorials.without_biases(attention)
        if source_dim is not None:
            tutorials.read_width(attention, source_dim)
    attention.double()
    shake(attention, seed)
    return attention.eval()


def causal_in_chunks(
    attention: MultiHeadAttention,
    x_BTD: Tensor,
    chunks: list[int],
    cache: KVCache,
    real_BT: Tensor | None = None,
    **options: Any,
) -> Tensor:
    """Outputs of causal self-attention for chunks of so many tokens, one after another."""
    parts = []
    for part in x_BTD.split(chunks, dim=1):
        end = cache.length + part.size(1)
        allowed = None if real_BT is None else masks.padding(real_BT[:, :end])
        parts.append(attention(part, allowed=allowed, causal=True, cache=cache.layer(0), **options))
    return torch.cat(parts, dim=1)
