"""A transformer's decoder, stripped to what one further token of each hypothesis needs.

`Transformer.decode_step` takes any number of tokens, with masks and options, and asks at each call
which it was given; here that is settled once, and a step makes half as many calls. The numbers are
the same.

Shapes: B sentences, R hypotheses (B times the beams), L layers, T positions so far, S source
length, D model width, H query heads, K key/value heads, E width of a head, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from seq2seq.data.tokenizer import PAD
from seq2seq.decoding.step import ModelStep, StepModel
from seq2seq.model.attention import MultiHeadAttention
from seq2seq.model.cache import BLOCK, KeysValues
from seq2seq.model.layers import DecoderLayer, FeedForward, Residual
from seq2seq.model.packed_linear import PackedLinear
from seq2seq.model.positions import RotaryPositions
from seq2seq.model.transformer import Transformer
from seq2seq.model.translation_model import TranslationModel

TOGETHER = 16  # sentences of like length that are encoded at once: rows enough for products
WORTH = 0.9  # share of the positions that must be left for that to pay
Block = Callable[[Tensor], Tensor]


class Past(NamedTuple):
    """Keys and values of one layer, and where the newest token stands among them.

    Attributes:
        k, v: (R, K, T, E); at `place` they are yet to be set.
        place: of the newest token; in a tensor (1,) where shapes are fixed, see `static_step.py`.
        allowed_1T: which places may be attended to; None = all.
    """

    k: Tensor
    v: Tensor
    place: int | Tensor
    allowed_1T: Tensor | None = None

    @property
    def position(self) -> int | Tensor:
        """The place as embeddings take it: a number, or (batch, length)."""
        return self.place if isinstance(self.place, int) else self.place[None]

    def store(self, k_RK1E: Tensor, v_RK1E: Tensor) -> None:
        """Set keys and values of the newest token."""
        for buffer, new in ((self.k, k_RK1E), (self.v, v_RK1E)):
            if isinstance(self.place, int):
                buffer[:, :, self.place : self.place + 1] = new
            else:
                buffer.index_copy_(2, self.place, new)


def step_model(model: TranslationModel) -> StepModel[Any]:
    """The fastest step model of a translation model, which is in evaluation mode."""
    if isinstance(model, Transformer) and model.config.kernel == "sdpa":
        return TransformerStep(model)
    return ModelStep(model)


class TransformerState:
    """Keys and values of the source and of the tokens so far. It lives in inference mode.

    Attributes:
        cross: of the source, for each layer (B, K, S, E); shared by the beams.
        padding_B11S: what is added to the scores of the source, 0 or minus infinity; None = 0.
        past: of the tokens so far, (R, 2L, K, T or more, E): the keys, then the values, of each
            layer, in one tensor, so that a reordering is one operation.
        length: T.
    """

    def __init__(self, cross: list[KeysValues], padding_B11S: Tensor | None):
        self.cross, self.padding_B11S = cross, padding_B11S
        self.length = 0
        sentences, heads, _, width = cross[0].k.shape
        self.past = cross[0].k.new_empty(sentences, 2 * len(cross), heads, 0, width)
        self._spare: Tensor | None = None  # what is copied to next, in turns with the past

    def grow(self) -> list[Past]:
        """One more position of each layer, with keys and values yet to be set."""
        self.length += 1
        if self.length > self.past.size(3):
            self.past = F.pad(self.past, (0, 0, 0, BLOCK))
        parts = self.past[..., : self.length, :].unbind(1)
        place = self.length - 1
        return [Past(k, v, place) for k, v in zip(parts[::2], parts[1::2], strict=True)]

    def reorder(self, rows: Tensor) -> None:
        past = self.past
        shape = (rows.numel(), *past.shape[1:])
        new = self._spare
        if new is None or new.shape != shape:
            new = past.new_empty(shape)
        used = (..., slice(0, self.length), slice(None))
        torch.index_select(past[used], 0, rows, out=new[used])
        self.past, self._spare = new, past if past.shape == shape else None

    def keep(self, sentences: Tensor, rows: Tensor) -> None:
        self.cross = [
            KeysValues(*(part.index_select(0, sentences) for part in of_layer))
            for of_layer in self.cross
        ]
        if self.padding_B11S is not None:
            self.padding_B11S = self.padding_B11S.index_select(0, sentences)
        self.reorder(rows)


class TransformerStep:
    """A transformer as a step model.

    Args:
        model: in evaluation mode, with the fused kernel; its weights are shared.
    """

    def __init__(self, model: Transformer):
        self.model = model
        decoder = [layer for layer in model.decoder if isinstance(layer, DecoderLayer)]
        self._over_source = [layer.cross_attention for layer in decoder]
        self._layers = [_layer(layer, model.rotary) for layer in decoder]
        self._norm, self._output = _function(model.decoder_norm), _function(model.output)

    def start(self, source_BS: Tensor) -> TransformerState:
        real_BS = source_BS != PAD
        if real_BS.all():
            return TransformerState(self._keys_values(source_BS), None)
        parts = _of_like_length(real_BS)
        cross = _joined([(rows, self._keys_values(source_BS[rows, :s])) for rows, s in parts])
        padding_BS = cross[0].k.new_zeros(real_BS.shape).masked_fill_(~real_BS, -torch.inf)
        return TransformerState(cross, padding_BS[:, None, None])

    def _keys_values(self, source_BS: Tensor) -> list[KeysValues]:
        """Those of the source for each layer."""
        memory_BSD = self.model.encode(source_BS, source_BS != PAD)
        return [attention.keys_values(memory_BSD) for attention in self._over_source]

    def step(self, tokens_R: Tensor, state: TransformerState) -> Tensor:
        return self.log_probs(self.hidden(tokens_R, state))

    def hidden(self, tokens_R: Tensor, state: TransformerState) -> Tensor:
        """Append a token to each hypothesis; what the decoder makes of it (R, D)."""
        return self.run(tokens_R, state.grow(), state.cross, state.padding_B11S)

    def run(
        self,
        tokens_R: Tensor,
        pasts: list[Past],
        sources: list[KeysValues],
        padding_B11S: Tensor | None,
    ) -> Tensor:
        """The decoder on one token of each hypothesis (R, D), which is stored in the pasts."""
        x_RD = self.model.target_embedding(tokens_R[:, None], pasts[0].position)[:, 0]
        for layer, past, source in zip(self._layers, pasts, sources, strict=True):
            x_RD = layer(x_RD, past, source, padding_B11S)
        return self._norm(x_RD)

    def log_probs(self, hidden_RD: Tensor) -> Tensor:
        """Log probabilities (R, V) of the next token."""
        logits_RV = self._output(hidden_RD)
        return torch.log_softmax(logits_RV.float(), dim=-1)  # see `ModelStep`


def _of_like_length(real_BS: Tensor) -> list[tuple[Tensor, int]]:
    """Rows of a padded batch to encode together, and to which length.

    On a CPU, where time goes by positions, short sentences do not wait for long ones; all rows
    at once where that is no gain, and on a GPU, where it goes by calls.
    """
    batch, longest = real_BS.shape
    lengths_B = real_BS.sum(1)
    everything = [(torch.arange(batch, device=real_BS.device), longest)]
    if real_BS.device.type != "cpu" or batch <= TOGETHER:
        return everything
    groups = lengths_B.argsort(stable=True).chunk(-(-batch // TOGETHER))
    parts = [(rows, int(lengths_B[rows[-1]])) for rows in groups]
    positions = sum(len(rows) * length for rows, length in parts)
    return parts if positions < WORTH * real_BS.numel() else everything


def _joined(parts: list[tuple[Tensor, list[KeysValues]]]) -> list[KeysValues]:
    """The keys and values of all rows, padded with zeros, from those of some rows each."""
    if len(parts) == 1:
        return parts[0][1]
    batch = sum(len(rows) for rows, _ in parts)
    longest = max(layers[0].k.size(2) for _, layers in parts)
    _, heads, _, width = parts[0][1][0].k.shape
    joined = []
    for of_layer in zip(*(layers for _, layers in parts), strict=True):
        both = [part.new_zeros(batch, heads, longest, width) for part in of_layer[0]]
        for (rows, _), part in zip(parts, of_layer, strict=True):
            for whole, some in zip(both, part, strict=True):
                whole[rows, :, : some.size(2)] = some
        joined.append(KeysValues(*both))
    return joined


def _layer(layer: DecoderLayer, rotary: RotaryPositions | None) -> Callable[..., Tensor]:
    over_target = _attention_over_target(layer.self_attention, rotary)
    over_source = _attention_over_source(layer.cross_attention)
    feed_forward = _feed_forward(layer.feed_forward)
    residuals = (layer.self_residual, layer.cross_residual, layer.feed_forward_residual)
    first, second, third = map(_residual, residuals)

    def run(
        x_RD: Tensor, past: Past, source: KeysValues, padding_B11S: Tensor | None
    ) -> Tensor:
        x_RD = first(x_RD, lambda x_RD: over_target(x_RD, past))
        x_RD = second(x_RD, lambda x_RD: over_source(x_RD, source, padding_B11S))
        return third(x_RD, feed_forward)

    return run


def _attention_over_target(
    attention: MultiHeadAttention, rotary: RotaryPositions | None
) -> Callable[[Tensor, Past], Tensor]:
    projections = _together(attention.q_proj, attention.k_proj, attention.v_proj)
    out_proj, q_norm, k_norm = map(
        _function, (attention.out_proj, attention.q_norm, attention.k_norm)
    )

    def run(x_RD: Tensor, past: Past) -> Tensor:
        rows, heads, _, width = past.k.shape
        q_RHE, k_RKE, v_RKE = projections(x_RD)
        q_RH1E = q_norm(q_RHE.reshape(rows, -1, 1, width))
        k_RK1E = k_norm(k_RKE.reshape(rows, heads, 1, width))
        if rotary is not None:
            q_RH1E, k_RK1E = (rotary(x, past.position) for x in (q_RH1E, k_RK1E))
        past.store(k_RK1E, v_RKE.reshape(rows, heads, 1, width))
        # The queries that share a key/value head are so many queries of it.
        q_RKGE = q_RH1E.view(rows, heads, -1, width)
        context = F.scaled_dot_product_attention(q_RKGE, past.k, past.v, attn_mask=past.allowed_1T)
        return out_proj(context.reshape(rows, -1))

    return run


def _attention_over_source(
    attention: MultiHeadAttention,
) -> Callable[[Tensor, KeysValues, Tensor | None], Tensor]:
    q_proj, out_proj, q_norm = map(
        _function, (attention.q_proj, attention.out_proj, attention.q_norm)
    )

    def run(x_RD: Tensor, source: KeysValues, padding_B11S: Tensor | None) -> Tensor:
        sentences, heads, _, width = source.k.shape
        beams = x_RD.size(0) // sentences
        # N beams, and G queries that share a key/value head, are N * G queries of it.
        q_BNKGE = q_norm(q_proj(x_RD).view(sentences, beams, heads, -1, width))
        q_BKQE = q_BNKGE.transpose(1, 2).reshape(sentences, heads, -1, width)
        context = F.scaled_dot_product_attention(q_BKQE, *source, attn_mask=padding_B11S)
        context_BKNGE = context.reshape(sentences, heads, beams, -1, width)
        return out_proj(context_BKNGE.transpose(1, 2).reshape(len(x_RD), -1))

    return run


def _together(*parts: nn.Module) -> Callable[[Tensor], Sequence[Tensor]]:
    """What several layers make of the same input; by one product where weights are frozen."""
    packed = [part for part in parts if isinstance(part, PackedLinear)]
    if len(packed) < len(parts):
        functions = [_function(part) for part in parts]
        return lambda x: [function(x) for function in functions]
    joined, sizes = PackedLinear.joined(packed), [part.out_features for part in packed]
    return lambda x: joined(x).split_with_sizes(sizes, -1)


def _feed_forward(block: FeedForward) -> Block:
    activation, inner, outer = block.activation, _function(block.inner), _function(block.outer)
    if block.gate is None:
        return lambda x_RD: outer(activation(inner(x_RD)))
    gate = _function(block.gate)
    return lambda x_RD: outer(activation(gate(x_RD)) * inner(x_RD))


def _residual(residual: Residual) -> Callable[[Tensor, Block], Tensor]:
    norm = _function(residual.norm)
    if residual.pre_norm:
        return lambda x_RD, block: x_RD + block(norm(x_RD))
    return lambda x_RD, block: norm(x_RD + block(x_RD))


def _function(module: nn.Module) -> Block:
    """What a module computes, without what torch does around a module's call."""
    if type(module) is nn.Linear:
        return partial(F.linear, weight=module.weight, bias=module.bias)
    if type(module) is nn.LayerNorm:
        shape, weight, bias, eps = (
            list(module.normalized_shape), module.weight, module.bias, module.eps
        )
        return lambda x: torch.layer_norm(x, shape, weight, bias, eps)
    if type(module) is nn.Identity:
        return lambda x: x
    return module.forward  # such as a quantised layer
