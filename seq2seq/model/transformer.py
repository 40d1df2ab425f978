"""The transformer, top to bottom: embed -> encode -> decode -> project.

Shapes: B batch, S source length, T target length, D model width, V vocabulary,
R hypotheses (B in training, B sentences x N beams in search).
"""

from __future__ import annotations

import math
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from seq2seq.config import TransformerConfig
from seq2seq.model import masks
from seq2seq.model.dropout import Dropout
from seq2seq.model.kv_cache import KeysValues, KVCache, TransformerState
from seq2seq.model.layers import DecoderLayer, EncoderLayer, start_residuals
from seq2seq.model.positions import LearnedPositions, RotaryPositions, SinusoidalPositions
from seq2seq.model.translation_model import (
    BiasedOutput,
    TranslationModel,
    initialise,
    make_embeddings,
)

SENTENCES_TOGETHER = 16  # that a CPU encodes


class Embedding(nn.Module):
    """Embeds token ids: (B, L) -> scaled vectors with positions and dropout (B, L, D).

    Args:
        zero_start: replace the vector of the first token by zeros, whatever the token is.
    """

    def __init__(self, config: TransformerConfig, tokens: nn.Embedding, zero_start: bool = False):
        super().__init__()
        self.tokens, self.zero_start = tokens, zero_start
        self.scale = math.sqrt(config.d_model)  # section 3.4 of the paper
        self.positions: nn.Module | None = None  # rotary positions act inside attention
        if config.positions in ("sinusoidal", "sinusoidal_halves"):
            halves = config.positions == "sinusoidal_halves"
            self.positions = SinusoidalPositions(config.max_length, config.d_model, halves)
        elif config.positions == "learned":
            self.positions = LearnedPositions(config.max_length, config.d_model)
        self.dropout = Dropout(config.dropout)

    def forward(self, ids_BL: Tensor, start: int | Tensor = 0) -> Tensor:
        """Embed ids (B, L); return (B, L, D). `start`: as in `SinusoidalPositions.forward`."""
        x_BLD = self.tokens(ids_BL) * self.scale
        # A tensor is never 0: a CUDA graph starts at the second token.
        if self.zero_start and isinstance(start, int) and start == 0:
            x_BLD[:, :1] = 0
        if self.positions is not None:
            x_BLD = self.positions(x_BLD, start)
        return self.dropout(x_BLD)


class Transformer(TranslationModel):
    """Encoder-decoder transformer (Vaswani et al. 2017)."""

    config: TransformerConfig

    def __init__(
        self, config: TransformerConfig, vocab_size: int, target_vocab_size: int | None = None
    ):
        super().__init__(config, vocab_size, target_vocab_size)
        source_tokens, target_tokens = make_embeddings(config, self.vocab_sizes)
        self.source_embedding = Embedding(config, source_tokens)
        self.target_embedding = Embedding(config, target_tokens, config.zero_start)
        self.encoder = nn.ModuleList(EncoderLayer(config) for _ in range(config.encoder_layers))
        self.decoder = nn.ModuleList(DecoderLayer(config) for _ in range(config.decoder_layers))
        head_dim = config.head_dim or config.d_model // config.n_heads
        rotary = config.positions == "rotary"
        self.rotary = RotaryPositions(config.max_length, head_dim) if rotary else None
        # Post-norm layers end in a norm of their own; a pre-norm stack needs one at its end.
        pre = config.norm == "pre"
        self.encoder_norm = nn.LayerNorm(config.d_model) if pre else nn.Identity()
        self.decoder_norm = nn.LayerNorm(config.d_model) if pre else nn.Identity()
        kind = BiasedOutput if config.output_bias else nn.Linear
        self.output = kind(config.d_model, self.vocab_sizes[1], bias=config.output_bias)
        initialise(self)
        for layers in (self.encoder, self.decoder):
            if config.zero_blocks or pre:
                start_residuals(layers, config.zero_blocks)
        if config.tie_embeddings != "none":
            self.output.weight = target_tokens.weight

    def encode(self, source_BS: Tensor, source_real_BS: Tensor) -> Tensor:
        """Encode the source.

        Args:
            source_BS: token ids.
            source_real_BS: True where a token is real, False where it pads.

        Returns:
            Memory (B, S, D).
        """
        allowed = masks.padding(source_real_BS)
        x_BSD = self.source_embedding(source_BS)
        for layer in self.encoder:
            x_BSD = layer(x_BSD, allowed, self.rotary)
        return self.encoder_norm(x_BSD)

    def decode(
        self,
        target_RT: Tensor,
        memory: Tensor | list[KeysValues],
        source_allowed: Tensor | None = None,
        cache: KVCache | None = None,
    ) -> Tensor:
        """Return hidden states (R, T, D) of targets; position t sees the positions up to t.

        Padding at the end of a target needs no mask, since no real position looks ahead.

        Args:
            target_RT: one target for each source, or the same number of hypotheses for each.
            memory: of B sources (B, S, D), or its `keys_values` for each layer. A search computes
                keys and values once and reads them at each step; training reads them once and needs
                their gradients.
            source_allowed: (B, 1, 1, S) mask of the real source positions; None = all.
            cache: keys and values of earlier tokens, to which those of these tokens are appended.
        """
        of_layers = memory if isinstance(memory, list) else [memory] * len(self.decoder)
        start, target_allowed = (0, None) if cache is None else (cache.position, cache.allowed)
        x_RTD = self.target_embedding(target_RT, start)
        for i, layer in enumerate(self.decoder):
            past = None if cache is None else cache.layer(i)
            x_RTD = layer(
                x_RTD,
                memory=of_layers[i],
                source_allowed=source_allowed,
                rotary=self.rotary,
                cache=past,
                target_allowed=target_allowed,
            )
        return self.decoder_norm(x_RTD)

    def forward(self, source_BS: Tensor, source_real_BS: Tensor, target_BT: Tensor) -> Tensor:
        """Return hidden states (B, T, D) of a target given its source."""
        memory_BSD = self.encode(source_BS, source_real_BS)
        return self.decode(target_BT, memory_BSD, masks.padding(source_real_BS))

    # Token by token

    def start(self, source_BS: Tensor, source_real_BS: Tensor) -> TransformerState:
        """Encode B sources; begin one empty hypothesis for each."""
        source_allowed = None if source_real_BS.all() else masks.padding(source_real_BS)
        pads_on_cpu = source_BS.device.type == "cpu" and source_allowed is not None
        encode = self._encode_by_length if pads_on_cpu else self.encode
        memory_BSD = encode(source_BS, source_real_BS)
        layers = cast(list[DecoderLayer], list(self.decoder))
        of_layers = (layer.cross_attention.keys_values(memory_BSD) for layer in layers)
        # Contiguous for each head, because every step reads them.
        source = [KeysValues(k.contiguous(), v.contiguous()) for k, v in of_layers]
        cache = KVCache(len(layers), self.config.max_length)
        return TransformerState(source, source_allowed, cache)

    def _encode_by_length(self, source_BS: Tensor, source_real_BS: Tensor) -> Tensor:
        """Encode in groups of similar length, as padding costs time; positions not read are 0."""
        positions_S = torch.arange(1, source_BS.size(1) + 1)
        length_B = (source_real_BS * positions_S).amax(dim=1)  # up to the last real token
        order_B, parts = length_B.argsort(), []
        for rows_G in torch.split(order_B, SENTENCES_TOGETHER):
            length = int(length_B[rows_G].max())
            memory_GLD = self.encode(source_BS[rows_G, :length], source_real_BS[rows_G, :length])
            parts.append(F.pad(memory_GLD, (0, 0, 0, source_BS.size(1) - length)))
        return torch.cat(parts)[order_B.argsort()]

    def decode_step(self, target_RT: Tensor, state: TransformerState) -> Tensor:
        """Return hidden states (R, T, D) of T further tokens; the state has the tokens before."""
        return self.decode(target_RT, state.source, state.source_allowed, state.cache)
