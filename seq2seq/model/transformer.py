"""The transformer, top to bottom: embed -> encode -> decode -> project.

Shapes: B batch, S source length, T target length, D model width, V vocabulary,
R hypotheses (B in training, B sentences x N beams in search).
"""

from __future__ import annotations

import math

from torch import Tensor, nn

from seq2seq.config import ModelConfig
from seq2seq.model import masks
from seq2seq.model.cache import DecoderCache, LayerCache
from seq2seq.model.layers import DecoderLayer, EncoderLayer
from seq2seq.model.positions import LearnedPositions, RotaryPositions, SinusoidalPositions


class Embedding(nn.Module):
    """Token ids (B, L) -> scaled vectors with positions and dropout (B, L, D)."""

    def __init__(self, config: ModelConfig, tokens: nn.Embedding):
        super().__init__()
        self.tokens = tokens
        self.scale = math.sqrt(config.d_model)  # section 3.4 of the paper
        self.positions: nn.Module | None = None  # rotary positions act inside attention
        if config.positions == "sinusoidal":
            self.positions = SinusoidalPositions(config.max_length, config.d_model)
        elif config.positions == "learned":
            self.positions = LearnedPositions(config.max_length, config.d_model)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, ids_BL: Tensor, start: int = 0) -> Tensor:
        x_BLD = self.tokens(ids_BL) * self.scale
        if self.positions is not None:
            x_BLD = self.positions(x_BLD, start)
        dropped: Tensor = self.dropout(x_BLD)
        return dropped


class Transformer(nn.Module):
    """Encoder-decoder transformer (Vaswani et al. 2017).

    Args:
        config: sizes and kinds.
        vocab_size: number of token ids, shared by source and target.
    """

    def __init__(self, config: ModelConfig, vocab_size: int):
        super().__init__()
        self.config = config
        self.vocab_size = vocab_size
        source_tokens = nn.Embedding(vocab_size, config.d_model)
        tied = config.tie_embeddings
        target_tokens = source_tokens if tied == "all" else nn.Embedding(vocab_size, config.d_model)
        self.source_embedding = Embedding(config, source_tokens)
        self.target_embedding = Embedding(config, target_tokens)
        rotary = config.positions == "rotary"
        head_dim = config.d_model // config.n_heads
        self.rotary = RotaryPositions(config.max_length, head_dim) if rotary else None
        self.encoder = nn.ModuleList(EncoderLayer(config) for _ in range(config.encoder_layers))
        self.decoder = nn.ModuleList(DecoderLayer(config) for _ in range(config.decoder_layers))
        # Post-norm layers end in a norm of their own; a pre-norm stack needs one at its end.
        pre = config.norm == "pre"
        self.encoder_norm = nn.LayerNorm(config.d_model) if pre else nn.Identity()
        self.decoder_norm = nn.LayerNorm(config.d_model) if pre else nn.Identity()
        self.output = nn.Linear(config.d_model, vocab_size, bias=False)
        initialise(self)
        if tied != "none":
            self.output.weight = target_tokens.weight

    def encode(self, source_BS: Tensor, source_real_BS: Tensor) -> Tensor:
        """Read the source.

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
        memory: Tensor = self.encoder_norm(x_BSD)
        return memory

    def decode(
        self,
        target_BT: Tensor,
        memory_BSD: Tensor,
        source_real_BS: Tensor,
        target_real_BT: Tensor | None = None,
    ) -> Tensor:
        """Hidden states (B, T, D) for a whole target at once, as in training.

        Position t sees the target up to t. Padding at the end of a target needs no mask, since
        no real position looks ahead; give `target_real_BT` when padding stands elsewhere.
        """
        cache = self.start_cache(memory_BSD, source_real_BS)
        allowed = None if target_real_BT is None else masks.padding(target_real_BT)
        return self._decode(target_BT, cache, allowed, remember=False)

    def decode_step(self, target_RT: Tensor, cache: DecoderCache) -> Tensor:
        """Hidden states (R, T, D) of T further positions, whose past is in the cache."""
        return self._decode(target_RT, cache, None, remember=True)

    def start_cache(self, memory_BSD: Tensor, source_real_BS: Tensor) -> DecoderCache:
        """An empty cache over a source: its keys and values are computed here, once."""
        layers = []
        for layer in self.decoder:
            assert isinstance(layer, DecoderLayer)
            layers.append(LayerCache(*layer.cross_attention.keys_values(memory_BSD)))
        return DecoderCache(layers, masks.padding(source_real_BS))

    def project(self, hidden: Tensor) -> Tensor:
        """Hidden states (..., D) -> unnormalised scores of the next token (..., V)."""
        logits: Tensor = self.output(hidden)
        return logits

    def forward(self, source_BS: Tensor, source_real_BS: Tensor, target_BT: Tensor) -> Tensor:
        """Hidden states (B, T, D) of a target given its source; `project` makes scores of them."""
        return self.decode(target_BT, self.encode(source_BS, source_real_BS), source_real_BS)

    def _decode(
        self, target_RT: Tensor, cache: DecoderCache, allowed: Tensor | None, remember: bool
    ) -> Tensor:
        x_RTD = self.target_embedding(target_RT, start=cache.length)
        for layer, past in zip(self.decoder, cache.layers, strict=True):
            x_RTD = layer(
                x_RTD,
                (past.cross_k, past.cross_v),
                cache.source_allowed,
                allowed,
                self.rotary,
                past if remember else None,
            )
        hidden: Tensor = self.decoder_norm(x_RTD)
        return hidden


def initialise(model: nn.Module) -> None:
    """Xavier-uniform matrices, zero biases, embeddings of unit size after their scaling."""
    for module in model.modules():
        if isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight, std=module.embedding_dim**-0.5)
