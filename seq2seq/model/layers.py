"""The blocks of a transformer: residual connection, feed-forward, encoder and decoder layer."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from seq2seq.config import TransformerConfig
from seq2seq.model.attention import MultiHeadAttention
from seq2seq.model.dropout import Dropout
from seq2seq.model.kv_cache import KeysValues, LayerCache
from seq2seq.model.positions import RotaryPositions

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": lambda x: F.relu(x, inplace=True),  # its input, a product, is not needed again
    "gelu": F.gelu,
    "silu": F.silu,
    "swiglu": F.silu,
}


class Residual(nn.Module):
    """Adds a block's output to its input, with dropout and layer norm.

    Post-norm is the paper's LayerNorm(x + block(x)). Pre-norm, x + block(LayerNorm(x)), has no
    norm on the path through the stack and trains deep models without care (Xiong et al. 2020).
    """

    def __init__(self, config: TransformerConfig):
        super().__init__()
        self.norm = nn.LayerNorm(config.d_model)
        self.dropout = Dropout(config.dropout)
        self.pre_norm = config.norm == "pre"

    def forward(self, x_BLD: Tensor, block: Callable[[Tensor], Tensor]) -> Tensor:
        """Apply block to x (B, L, D) and add x; return (B, L, D)."""
        added_BLD = block(self.norm(x_BLD) if self.pre_norm else x_BLD)
        changed_BLD = x_BLD + self.dropout(added_BLD)
        return changed_BLD if self.pre_norm else self.norm(changed_BLD)


class FeedForward(nn.Module):
    """Two matrices with a non-linearity between them, applied to each position separately.

    With `swiglu`, a third matrix gates the inner layer (Shazeer 2020).
    """

    def __init__(self, config: TransformerConfig):
        super().__init__()
        self.activation = ACTIVATIONS[config.activation]
        self.inner = nn.Linear(config.d_model, config.d_ff)
        gated = config.activation == "swiglu"
        self.gate = nn.Linear(config.d_model, config.d_ff) if gated else None
        self.outer = nn.Linear(config.d_ff, config.d_model)

    def forward(self, x_BLD: Tensor) -> Tensor:
        """Map each position: (B, L, D) -> (B, L, D)."""
        if self.gate is None:
            inner = self.activation(self.inner(x_BLD))
        else:
            inner = self.activation(self.gate(x_BLD)) * self.inner(x_BLD)
        return self.outer(inner)


def _attention(config: TransformerConfig, cross: bool = False) -> MultiHeadAttention:
    return MultiHeadAttention(
        config.d_model,
        config.n_heads,
        config.n_kv_heads,
        config.head_dim,
        dropout=config.attention_dropout,
        qk_norm=config.qk_norm and (config.cross_qk_norm or not cross),
        norm_eps=torch.finfo(torch.float32).eps if config.cross_qk_norm else 1e-5,  # as CTranslate2
        kernel=config.kernel,
    )


class EncoderLayer(nn.Module):
    """Self-attention over the source, then feed-forward."""

    def __init__(self, config: TransformerConfig):
        super().__init__()
        self.self_attention = _attention(config)
        self.self_residual = Residual(config)
        self.feed_forward = FeedForward(config)
        self.feed_forward_residual = Residual(config)

    def forward(
        self, x_BSD: Tensor, allowed: Tensor | None, rotary: RotaryPositions | None
    ) -> Tensor:
        """Apply one encoder layer; return (B, S, D).

        Args:
            allowed: mask over the source, (B, 1, 1, S); None = all.
            rotary: None unless the model uses rotary positions.
        """
        x_BSD = self.self_residual(
            x_BSD, lambda x: self.self_attention(x, allowed=allowed, rotary=rotary)
        )
        return self.feed_forward_residual(x_BSD, self.feed_forward)


class DecoderLayer(nn.Module):
    """Causal self-attention over the target, cross-attention to the source, feed-forward."""

    def __init__(self, config: TransformerConfig):
        super().__init__()
        self.self_attention = _attention(config)
        self.self_residual = Residual(config)
        self.cross_attention = _attention(config, cross=True)
        self.cross_residual = Residual(config)
        self.feed_forward = FeedForward(config)
        self.feed_forward_residual = Residual(config)

    def forward(
        self,
        x_RTD: Tensor,
        memory: Tensor | KeysValues,
        source_allowed: Tensor | None,
        rotary: RotaryPositions | None = None,
        cache: LayerCache | None = None,
        target_allowed: Tensor | None = None,
    ) -> Tensor:
        """Apply one layer of `Transformer.decode`; return (R, T, D).

        Args:
            x_RTD: R targets: one for each source, or the same number of hypotheses for each.
            memory: the encoder's output (B, S, D), or its `cross_attention.keys_values`.
            source_allowed: mask over the source, (B, 1, 1, S).
            rotary: rotary positions, if the model uses them.
            cache: keys and values of the tokens before x, to which those of x are appended.
            target_allowed: mask over the target that replaces the causal one.
        """

        def over_target(x_RTD: Tensor) -> Tensor:
            return self.self_attention(
                x_RTD,
                allowed=target_allowed,
                causal=target_allowed is None,
                rotary=rotary,
                cache=cache,
            )

        def over_source(x_RTD: Tensor) -> Tensor:
            # The N hypotheses of a sentence read the same source, so they enter as N * T queries
            # of one row, and the source is not copied N times.
            sentences = (memory.k if isinstance(memory, KeysValues) else memory).size(0)
            rows, length, width = x_RTD.shape
            x_BQD = x_RTD.reshape(sentences, rows // sentences * length, width)
            attended: Tensor = self.cross_attention(x_BQD, memory, source_allowed)
            return attended.view_as(x_RTD)

        x_RTD = self.self_residual(x_RTD, over_target)
        x_RTD = self.cross_residual(x_RTD, over_source)
        return self.feed_forward_residual(x_RTD, self.feed_forward)


@torch.no_grad()
def start_residuals(layers: nn.ModuleList, zero: bool) -> None:
    """Set how much the N blocks of a stack add to their inputs at the start of training.

    Without a norm on the path, the variances of the blocks add up: a deep stack would begin with
    large activations. So the last matrix of each block is divided by sqrt(N) (Radford et al. 2019,
    section 2.3).

    Args:
        zero: the blocks add nothing (Zhang et al. 2019, Fixup): the last matrix of each is zero.
            The gradient first moves these matrices, then the others.
    """
    last = [
        block.outer.weight if isinstance(block, FeedForward) else block.out_proj.weight
        for block in layers.modules()
        if isinstance(block, FeedForward | MultiHeadAttention)
    ]
    for weight in last:
        if zero:
            weight.zero_()
        else:
            weight /= len(last) ** 0.5
