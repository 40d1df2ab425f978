"""The transformer, top to bottom: embed -> encode -> decode -> project.

Shapes: B batch, S source length, T target length, D model width, V vocabulary,
R hypotheses (B in training, B sentences x N beams in search).
"""

from __future__ import annotations

import math

from torch import Tensor, nn

from seq2seq.config import TransformerConfig
from seq2seq.model import masks
from seq2seq.model.cache import DecoderCache, LayerCache
from seq2seq.model.dropout import Dropout, WordDropout
from seq2seq.model.layers import DecoderLayer, EncoderLayer, scale_residuals
from seq2seq.model.positions import LearnedPositions, RotaryPositions, SinusoidalPositions
from seq2seq.model.translation_model import (
    TranslationModel,
    check_rows,
    check_source,
    initialise,
    make_embeddings,
)


class Embedding(nn.Module):
    """Token ids (B, L) -> scaled vectors with positions and dropout (B, L, D)."""

    def __init__(self, config: TransformerConfig, tokens: nn.Embedding):
        super().__init__()
        self.tokens = tokens
        self.scale = math.sqrt(config.d_model)  # section 3.4 of the paper
        self.positions: nn.Module | None = None  # rotary positions act inside attention
        if config.positions == "sinusoidal":
            self.positions = SinusoidalPositions(config.max_length, config.d_model)
        elif config.positions == "learned":
            self.positions = LearnedPositions(config.max_length, config.d_model)
        self.word_dropout = WordDropout(config.word_dropout)
        self.dropout = Dropout(config.dropout)

    def forward(self, ids_BL: Tensor, start: int | Tensor = 0) -> Tensor:
        x_BLD = self.word_dropout(self.tokens(ids_BL) * self.scale)
        if self.positions is not None:
            x_BLD = self.positions(x_BLD, start)
        dropped: Tensor = self.dropout(x_BLD)
        return dropped


class Transformer(TranslationModel):
    """Encoder-decoder transformer (Vaswani et al. 2017).

    Args:
        config: sizes and kinds.
        vocab_size: number of token ids of the source.
        target_vocab_size: the same of the target; None = they share a vocabulary.
    """

    config: TransformerConfig

    def __init__(
        self, config: TransformerConfig, vocab_size: int, target_vocab_size: int | None = None
    ):
        super().__init__(config, vocab_size, target_vocab_size)
        source_tokens, target_tokens = make_embeddings(config, self.vocab_sizes)
        self.source_embedding = Embedding(config, source_tokens)
        self.target_embedding = Embedding(config, target_tokens)
        self.encoder = nn.ModuleList(EncoderLayer(config) for _ in range(config.encoder_layers))
        self.decoder = nn.ModuleList(DecoderLayer(config) for _ in range(config.decoder_layers))
        head_dim = config.head_dim or config.d_model // config.n_heads
        rotary = config.positions == "rotary"
        self.rotary = RotaryPositions(config.max_length, head_dim) if rotary else None
        # Post-norm layers end in a norm of their own; a pre-norm stack needs one at its end.
        pre = config.norm == "pre"
        self.encoder_norm = nn.LayerNorm(config.d_model) if pre else nn.Identity()
        self.decoder_norm = nn.LayerNorm(config.d_model) if pre else nn.Identity()
        self.output = nn.Linear(config.d_model, self.vocab_sizes[1], bias=False)
        initialise(self)
        if pre:
            scale_residuals(self.encoder)
            scale_residuals(self.decoder)
        if config.tie_embeddings != "none":
            self.output.weight = target_tokens.weight

    def encode(self, source_BS: Tensor, source_real_BS: Tensor) -> Tensor:
        """Read the source.

        Args:
            source_BS: token ids.
            source_real_BS: True where a token is real, False where it pads.

        Returns:
            Memory (B, S, D).
        """
        check_source(source_BS, source_real_BS)
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
        no real position looks ahead; give `target_real_BT` when padding stands elsewhere, and
        positions are counted over the real tokens.
        """
        cache = self.start_cache(memory_BSD, source_real_BS)
        return self._decode(target_BT, target_real_BT, cache, remember=False)

    def start_cache(self, memory_BSD: Tensor, source_real_BS: Tensor) -> DecoderCache:
        """An empty cache over a source: its keys and values are computed here, once."""
        layers = []
        for layer in self.decoder:
            assert isinstance(layer, DecoderLayer)
            source_kv = layer.cross_attention.keys_values(memory_BSD)
            layers.append(LayerCache(source_kv, capacity=self.config.max_length))
        return DecoderCache(layers, masks.padding(source_real_BS))

    def start(self, source_BS: Tensor, source_real_BS: Tensor) -> DecoderCache:
        """Read B sources into an empty cache."""
        return self.start_cache(self.encode(source_BS, source_real_BS), source_real_BS)

    def decode_step(
        self, target_RT: Tensor, state: DecoderCache, target_real_RT: Tensor | None = None
    ) -> Tensor:
        """Hidden states (R, T, D) of T further tokens, whose past is in the cache.

        `target_real_RT` is False where they pad, for prefixes that are aligned at their ends.
        """
        return self._decode(target_RT, target_real_RT, state, remember=True)

    def forward(self, source_BS: Tensor, source_real_BS: Tensor, target_BT: Tensor) -> Tensor:
        """Hidden states (B, T, D) of a target given its source; `project` makes scores of them."""
        return self.decode(target_BT, self.encode(source_BS, source_real_BS), source_real_BS)

    def _decode(
        self, target_RT: Tensor, real_RT: Tensor | None, cache: DecoderCache, remember: bool
    ) -> Tensor:
        check_rows(target_RT.size(0), cache.source_allowed.size(0))
        start, allowed = cache.place(target_RT, real_RT)
        positions_RT = start if self.rotary is not None and isinstance(start, Tensor) else None
        x_RTD = self.target_embedding(target_RT, start)
        for layer, past in zip(self.decoder, cache.layers, strict=True):
            x_RTD = layer(
                x_RTD,
                past.cross,
                cache.source_allowed,
                allowed,
                self.rotary,
                past if remember else None,
                positions_RT,
            )
        hidden: Tensor = self.decoder_norm(x_RTD)
        return hidden
