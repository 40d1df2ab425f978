"""Export a bundle to the format of CTranslate2, an engine in C++ (github.com/OpenNMT/CTranslate2).

Any user of CTranslate2 can load the folder, and so can our translator::

    model.bin             weights
    config.json           settings of CTranslate2, and those of the bundle, in one object
    *_vocabulary.json     subwords by id, for CTranslate2
    tokenizer.json        the vocabulary as the bundle has it, or one for each language

Linear layers that read the same input are one matrix there: queries, keys and values of
self-attention; keys and values of cross-attention.

A change of the written files must raise `LAYOUT` in `ctranslate2.py`; else older exports are used.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import torch
from torch import nn

from seq2seq.bundle.bundle import load_bundle
from seq2seq.bundle.config import read_config
from seq2seq.bundle.ctranslate2 import LAYOUT, require_ctranslate2, require_expressible
from seq2seq.bundle.export import export_place
from seq2seq.bundle.find import bundle_folder
from seq2seq.config import TransformerConfig
from seq2seq.data.tokenizer import BOS, EOS, PAD
from seq2seq.data.vocabularies import JOINT, SEPARATE, Vocabularies
from seq2seq.decoding.attention_head import AttentionHead
from seq2seq.files import atomic_folder, read_json, write_json
from seq2seq.model.attention import MultiHeadAttention
from seq2seq.model.layers import DecoderLayer, EncoderLayer, Residual
from seq2seq.model.positions import LearnedPositions, sinusoidal_table
from seq2seq.model.transformer import Transformer

ACTIVATIONS = {"relu": "RELU", "gelu": "GELU", "silu": "SWISH", "swiglu": "SWISH"}
MULTIPLE = 8  # CTranslate2 pads half-precision sources to multiples of this


def export(
    path: str | Path,
    output: Path | None = None,
    quantization: str = "float32",
    force: bool = False,
) -> Path:
    """Export the bundle `path`, or that of the run `path`, for CTranslate2; return the folder.

    Args:
        path: a bundle or a run, or the name of a shipped model.
        output, force: as for `export_place`.
        quantization: how weights are stored: float32, float16, int8, ...

    Raises:
        BundleError: there is no bundle, or CTranslate2 cannot run its model.
        RunError: the output exists.
        OSError: the output cannot be written.
        UserError: the package is not installed.
    """
    version = require_ctranslate2().__version__
    folder = bundle_folder(path)
    output = export_place(folder, output, f"ctranslate2-{quantization}", force)
    require_expressible(read_config(folder / "config.json").model, folder)
    with atomic_folder(output) as partial:
        bundle = load_bundle(folder)
        assert isinstance(bundle.model, Transformer)
        spec = to_spec(bundle.model, bundle.vocabularies, bundle.alignment)
        spec.validate()
        spec.optimize(quantization)
        spec.save(str(partial))
        for name in (JOINT, *SEPARATE):
            if (folder / name).is_file():
                shutil.copyfile(folder / name, partial / name)
        config = read_json(folder / "config.json") | read_json(partial / "config.json")
        config["ctranslate2"] = {"version": version, "layout": LAYOUT, "weights": quantization}
        write_json(partial / "config.json", config)
    return output


def to_spec(model: Transformer, vocabularies: Vocabularies, alignment: AttentionHead) -> Any:
    """Return CTranslate2's description of a model, filled with its weights (a `TransformerSpec`).

    CTranslate2 can report only the mean of the first heads of a layer. So if one head aligns, the
    heads of its layer are reordered in `model`, which does not change the outputs.
    """
    from ctranslate2.specs import common_spec, transformer_spec

    config = model.config
    options = {
        "num_heads": config.n_heads,
        "pre_norm": config.norm == "pre",
        "activation": common_spec.Activation[ACTIVATIONS[config.activation]],
        "ffn_glu": config.activation == "swiglu",
        "qk_norm": config.qk_norm,
        "num_heads_kv": config.n_kv_heads,
        "head_dim": config.head_dim,
        "rotary_dim": 0 if config.positions == "rotary" else None,  # 0 = the whole head
        "rotary_interleave": True,
    }
    encoder = transformer_spec.TransformerEncoderSpec(config.encoder_layers, **options)
    layer = alignment.index(config.decoder_layers)
    if alignment.head is not None:
        aligning = model.decoder[layer]
        assert isinstance(aligning, DecoderLayer)
        _put_first(alignment.head, aligning.cross_attention)
    decoder = transformer_spec.TransformerDecoderSpec(
        config.decoder_layers,
        alignment_layer=layer,
        alignment_heads=0 if alignment.head is None else 1,  # 0 = all
        **options,
    )
    for part, layers, tokens, norm in (
        (encoder, model.encoder, model.source_embedding.tokens, model.encoder_norm),
        (decoder, model.decoder, model.target_embedding.tokens, model.decoder_norm),
    ):
        (part.embeddings[0] if part is encoder else part.embeddings).weight = tokens.weight.data
        if isinstance(norm, nn.LayerNorm):
            _set_norm(part.layer_norm, norm)
        for described, own in zip(part.layer, layers, strict=True):
            _set_layer(described, own)
    _set_positions(encoder, model.source_embedding.positions, config)
    _set_positions(decoder, model.target_embedding.positions, config)
    decoder.start_from_zero_embedding = config.zero_start
    decoder.projection.weight = model.output.weight.data
    if model.output.bias is not None:
        decoder.projection.bias = model.output.bias.data

    spec = transformer_spec.TransformerSpec(encoder, decoder)
    source, target = vocabularies.source.names(), vocabularies.target.names()
    spec.register_source_vocabulary(source)
    spec.register_target_vocabulary(target)
    spec.config.unk_token = target[PAD]  # no token is unknown, since all texts can be encoded
    spec.config.bos_token = spec.config.decoder_start_token = target[BOS]
    spec.config.eos_token = target[EOS]
    spec.config.layer_norm_epsilon = 1e-5  # that of nn.LayerNorm, and of our q_norm and k_norm
    return spec


@torch.no_grad()
def _put_first(head: int, attention: MultiHeadAttention) -> None:
    """Reorder the heads so that one query head, and its key/value head, come first."""
    width = attention.head_dim
    kv_heads = attention.k_proj.out_features // width
    group = attention.q_proj.out_features // width // kv_heads
    kv = head // group
    kv_order = sorted(range(kv_heads), key=lambda other: other != kv)
    own = sorted(range(group), key=lambda other: kv * group + other != head)
    order = [k * group + (own[i] if k == kv else i) for k in kv_order for i in range(group)]
    columns, kv_columns = (
        (torch.tensor(heads)[:, None] * width + torch.arange(width)).flatten()
        for heads in (order, kv_order)
    )
    for linear, rows in (
        (attention.q_proj, columns),
        (attention.k_proj, kv_columns),
        (attention.v_proj, kv_columns),
    ):
        linear.weight.data, linear.bias.data = linear.weight[rows], linear.bias[rows]
    attention.out_proj.weight.data = attention.out_proj.weight[:, columns]


def _set_layer(described: Any, layer: nn.Module) -> None:
    assert isinstance(layer, EncoderLayer | DecoderLayer)
    _set_attention(described.self_attention, layer.self_attention, layer.self_residual)
    if isinstance(layer, DecoderLayer):
        _set_attention(described.attention, layer.cross_attention, layer.cross_residual)
    feed, block = described.ffn, layer.feed_forward
    _set_norm(feed.layer_norm, layer.feed_forward_residual.norm)
    _set_linear(feed.linear_0, block.gate or block.inner)  # the activation follows this one
    if block.gate is not None:
        _set_linear(feed.linear_0_noact, block.inner)
    _set_linear(feed.linear_1, block.outer)


def _set_attention(described: Any, attention: MultiHeadAttention, residual: Residual) -> None:
    _set_norm(described.layer_norm, residual.norm)
    q, k, v = attention.q_proj, attention.k_proj, attention.v_proj
    joined = [[q, k, v]] if len(described.linear) == 2 else [[q], [k, v]]
    for linear, parts in zip(described.linear, [*joined, [attention.out_proj]], strict=True):
        _set_linear(linear, *parts)
    for name in ("q_norm", "k_norm"):
        norm = getattr(attention, name)
        if isinstance(norm, nn.RMSNorm):
            getattr(described, name).gamma = norm.weight.data
        elif hasattr(described, name):  # CTranslate2 expects norms in both kinds of attention
            delattr(described, name)


def _set_linear(described: Any, *parts: nn.Linear) -> None:
    described.weight = torch.cat([part.weight.data for part in parts])
    described.bias = torch.cat([part.bias.data for part in parts])


def _set_norm(described: Any, norm: nn.LayerNorm) -> None:
    described.gamma, described.beta = norm.weight.data, norm.bias.data


def _set_positions(part: Any, positions: nn.Module | None, config: TransformerConfig) -> None:
    """Set the table of absolute positions; CTranslate2's own starts at 1 and does not alternate."""
    if positions is None:
        return
    # An output of maximum length is scored with an end mark after it.
    length = -(-(config.max_length + 1) // MULTIPLE) * MULTIPLE
    table_LD = sinusoidal_table(length, config.d_model, config.positions == "sinusoidal_halves")
    if isinstance(positions, LearnedPositions):
        table_LD = torch.zeros(length, config.d_model)
        table_LD[: config.max_length] = positions.embedding.weight.data
    part.position_encodings.encodings = table_LD
