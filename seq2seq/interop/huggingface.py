"""Marian and Pegasus models of Hugging Face's Transformers library, in and out, without it.

Both are the transformer of this project with other names. `MarianMTModel` (OPUS-MT) is post-norm;
`PegasusForConditionalGeneration` is pre-norm. Three things differ:

- Their sinusoidal positions have the sines in the first half of the width and the cosines in the
  second; ours alternate. The frequencies are the same, so each weight that reads or writes the
  width of the model has its columns or rows permuted (`_permuted`).
- Their tokens have other numbers. PAD, BOS and EOS are 0, 1 and 2 here; OPUS-MT ends with 0, and
  begins an output with its padding, the last token, whose vector is zero (`model.zero_start`). So
  embeddings and outputs have their rows permuted (`vocabulary.py`).
- Their scores have a bias, `final_logits_bias`: `model.output_bias`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor

from seq2seq import __version__
from seq2seq.config import DecodeConfig, ModelConfig, TransformerConfig
from seq2seq.data.tokenizer import BOS, EOS, PAD, Tokenizer
from seq2seq.data.vocabularies import Vocabularies
from seq2seq.errors import BundleError, UserError
from seq2seq.interop.vocabulary import (
    Words,
    read_theirs,
    read_vocabulary,
    their_orders,
    write_json,
    write_vocabulary,
)
from seq2seq.model.transformer import Transformer
from seq2seq.model.translation_model import TranslationModel

ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "swish": "silu", "silu": "silu"}  # theirs: ours
KINDS = {"marian": "post", "pegasus": "pre"}  # their `model_type`, and where its norms are
MARKS = {
    "pad_token_id": PAD,
    "bos_token_id": BOS,
    "eos_token_id": EOS,
    "decoder_start_token_id": BOS,
    "bad_words_ids": [[PAD], [BOS]],  # which are no outputs
}
NEVER = -30.0  # the bias of BOS where the library has none: its probability is below 1e-12

# Settings of theirs that would make it another network than ours, with the only value that fits.
# Old files of OPUS-MT have some that the library has forgotten since.
REQUIRED = {
    "scale_embedding": True,
    "add_bias_logits": False,
    "normalize_embedding": False,
    "static_position_embeddings": True,
    "extra_pos_embeddings": 0,
    "is_encoder_decoder": True,
}


@dataclass
class HubModel:
    """What a model of the library and a bundle of ours have in common.

    Attributes:
        model: the network, in our order.
        vocabularies: of its source and its target.
        decode: settings of its search.
        languages: codes of source and target; empty if nobody says.
    """

    model: TranslationModel
    vocabularies: Vocabularies
    decode: DecodeConfig
    languages: list[str]


# Weights


def _weight_names(config: TransformerConfig) -> Iterator[tuple[str, str, tuple[int, ...]]]:
    """Our name and theirs of each weight of the layers, and which of its dimensions are D wide."""
    norms = {"self_residual": "self_attn_layer_norm", "feed_forward_residual": "final_layer_norm"}
    across = {"cross_residual": "encoder_attn_layer_norm"}
    sides = {"encoder": config.encoder_layers, "decoder": config.decoder_layers}
    for side, layers in sides.items():
        attentions = {"self_attention": "self_attn"}
        if side == "decoder":
            attentions["cross_attention"] = "encoder_attn"
        for i in range(layers):
            ours, theirs = f"{side}.{i}", f"model.{side}.layers.{i}"
            for own, other in attentions.items():
                for part, kind in (*((p, "reads") for p in "qkv"), ("out", "writes")):
                    yield from _linear(
                        f"{ours}.{own}.{part}_proj", f"{theirs}.{other}.{part}_proj", kind
                    )
            for own, other in (norms if side == "encoder" else norms | across).items():
                for name in ("weight", "bias"):
                    yield f"{ours}.{own}.norm.{name}", f"{theirs}.{other}.{name}", (0,)
            yield from _linear(f"{ours}.feed_forward.inner", f"{theirs}.fc1", "reads")
            yield from _linear(f"{ours}.feed_forward.outer", f"{theirs}.fc2", "writes")
        if config.norm == "pre":
            for name in ("weight", "bias"):
                yield f"{side}_norm.{name}", f"model.{side}.layer_norm.{name}", (0,)


def _linear(ours: str, theirs: str, kind: str) -> Iterator[tuple[str, str, tuple[int, ...]]]:
    """A linear layer that reads the width of the model, or writes it."""
    yield f"{ours}.weight", f"{theirs}.weight", (1,) if kind == "reads" else (0,)
    yield f"{ours}.bias", f"{theirs}.bias", () if kind == "reads" else (0,)


def _permuted(weight: Tensor, dims: Sequence[int], order_D: Tensor) -> Tensor:
    """The weight with its dimensions of the model's width in another order."""
    for dim in dims:
        weight = weight.index_select(dim, order_D)
    return weight


def _their_order(width: int) -> Tensor:
    """(D,) which of our dimensions is each of theirs: first those of sines, then of cosines."""
    return torch.cat([torch.arange(0, width, 2), torch.arange(1, width, 2)])


# In


def read_huggingface(folder: Path, name: str = "") -> HubModel:
    """A Marian or Pegasus model as one of ours, in float32.

    Args:
        folder: with `config.json`, weights (`model.safetensors`, or `pytorch_model.bin`), and a
            vocabulary: `source.spm`, `target.spm` and `vocab.json` (and `target_vocab.json` where
            there are two), or the `tokenizer.json` that `write_huggingface` wrote.
        name: of the model, as it is to be known; that of the folder if empty.

    Raises:
        BundleError: a file is missing or damaged, or the model is of another kind; says of which.
    """
    theirs = read_theirs(folder / "config.json")
    words = read_vocabulary(folder, theirs)
    config = _model_config(folder, theirs, name or folder.name, words.starts)
    with torch.device("meta"):
        model = Transformer(config, *words.vocabularies.sizes)
    weights = _our_weights(folder, config, words)
    try:
        model.load_state_dict(weights, strict=False, assign=True)
    except RuntimeError as error:
        raise BundleError(f"the weights in {folder} do not fit its config.json: {error}") from error
    missing = [name for name, value in model.named_parameters() if value.is_meta]
    if missing:
        raise BundleError(f"the weights in {folder} lack {', '.join(missing)}: copy them again")
    _make_tables(model)
    decode = _decode_config(theirs | read_theirs(folder / "generation_config.json", optional=True))
    model.eval().requires_grad_(False)
    return HubModel(model, words.vocabularies, decode, words.languages)


def _model_config(
    folder: Path, theirs: Mapping[str, Any], name: str, zero_start: bool
) -> TransformerConfig:
    """Our settings of their model.

    Raises:
        BundleError: a part of it is unknown here; names all.
    """
    wrong = [
        f"{key}={theirs[key]}" for key, value in REQUIRED.items() if theirs.get(key, value) != value
    ]
    if "scale_embedding" not in theirs:
        wrong.append("scale_embedding=false")
    for one, other in (("encoder_attention_heads", "decoder_attention_heads"),
                       ("encoder_ffn_dim", "decoder_ffn_dim")):  # fmt: skip
        if theirs.get(one) != theirs.get(other):
            wrong.append(f"{one}={theirs.get(one)} with {other}={theirs.get(other)}")
    if theirs.get("activation_function", "gelu") not in ACTIVATIONS:
        wrong.append(f"activation_function={theirs['activation_function']}")
    if theirs.get("model_type") not in KINDS:
        wrong.insert(0, f"model_type={theirs.get('model_type')}")
    if wrong:
        raise BundleError(
            f"the model {folder} cannot be read, since seq2seq does not know {', '.join(wrong)}: "
            f"it reads {' and '.join(KINDS)} models, such as Helsinki-NLP/opus-mt-en-fr"
        )
    shared = theirs.get("share_encoder_decoder_embeddings", True)
    tied = theirs.get("tie_word_embeddings", True)
    try:
        return TransformerConfig(
            name=name.rpartition("/")[2],
            d_model=theirs["d_model"],
            encoder_layers=theirs["encoder_layers"],
            decoder_layers=theirs["decoder_layers"],
            n_heads=theirs["encoder_attention_heads"],
            d_ff=theirs["encoder_ffn_dim"],
            norm=KINDS[theirs["model_type"]],
            activation=ACTIVATIONS[theirs.get("activation_function", "gelu")],
            tie_embeddings="none" if not tied else "all" if shared else "decoder",
            dropout=theirs.get("dropout", 0.1),
            attention_dropout=theirs.get("attention_dropout", 0.0),
            max_length=theirs["max_position_embeddings"],
            output_bias=True,
            zero_start=zero_start,
        )
    except (KeyError, TypeError, UserError) as error:
        raise BundleError(f"{folder}/config.json does not describe its model: {error}") from error


def _decode_config(generation: Mapping[str, Any]) -> DecodeConfig:
    """Search settings as near to theirs as ours can be."""
    penalty = generation.get("length_penalty")
    return DecodeConfig(
        beam=generation.get("num_beams") or 1,
        length_penalty=1.0 if penalty is None else max(0.0, float(penalty)),  # theirs is 1, too
    )


def _our_weights(folder: Path, config: TransformerConfig, words: Words) -> dict[str, Tensor]:
    """Their weights by our names, in our order."""
    theirs, order_D = _read_weights(folder), torch.argsort(_their_order(config.d_model))
    source_rows, target_rows = words.rows
    found: dict[str, Tensor] = {}
    try:
        for ours, name, dims in _weight_names(config):
            found[ours] = _permuted(theirs[name].float(), dims, order_D)
        # Tied ones stand in a file once, under one name or another.
        own = [f"model.{side}.embed_tokens.weight" for side in ("encoder", "decoder")]
        source, target = (theirs[name if name in theirs else "model.shared.weight"] for name in own)
        output = theirs["lm_head.weight"] if config.tie_embeddings == "none" else target
        bias_V = theirs["final_logits_bias"].float().flatten()[target_rows]
        tables = (source[source_rows], target[target_rows], output[target_rows])
    except (KeyError, TypeError, IndexError, RuntimeError) as error:
        raise BundleError(
            f"the weights in {folder} are not those of its config.json and vocabulary ({error!r}): "
            "download the model again"
        ) from error
    names = ("source_embedding.tokens", "target_embedding.tokens", "output")
    for name, table in zip(names, tables, strict=True):
        found[f"{name}.weight"] = _permuted(table.float(), (1,), order_D)
    if config.tie_embeddings != "none":
        found["output.weight"] = found["target_embedding.tokens.weight"]
    if config.tie_embeddings == "all":
        found["source_embedding.tokens.weight"] = found["output.weight"]
    if words.starts:
        bias_V[BOS] = NEVER
    found["output.bias"] = bias_V
    return found


def _make_tables(model: Transformer) -> None:
    """Compute what no file holds, such as positions, in a model that was made on `meta`."""
    fresh = Transformer(model.config, 3)  # tokens: their number does not matter
    for name, table in fresh.named_buffers():
        place, _, attribute = name.rpartition(".")
        setattr(model.get_submodule(place), attribute, table)


def _read_weights(folder: Path) -> Mapping[str, Tensor]:
    new, old = folder / "model.safetensors", folder / "pytorch_model.bin"
    path = new if new.is_file() else old
    try:
        if path == new:
            return safetensors.torch.load_file(path)
        weights: Mapping[str, Tensor] = torch.load(path, map_location="cpu", weights_only=True)
        return weights
    except FileNotFoundError:
        raise BundleError(
            f"{folder} has no weights: model.safetensors or pytorch_model.bin is missing. Download "
            "the model again"
        ) from None
    except UnpicklingError as error:
        raise BundleError(
            f"{path} holds more than weights, and reading it could run what somebody wrote into "
            "it: ask for model.safetensors"
        ) from error
    except (OSError, SafetensorError, RuntimeError, EOFError) as error:
        raise BundleError(
            f"cannot read the weights {path}: {error}. Download the model again"
        ) from error


# Out


def obstacles(config: ModelConfig, vocabularies: Vocabularies) -> list[str]:
    """What keeps a model from being one that the library knows without code of its own."""
    if not isinstance(config, TransformerConfig):
        return [f"model.architecture={config.architecture}"]
    heads = config.d_model // config.n_heads
    shared = config.tie_embeddings == "all"
    own = isinstance(vocabularies.source, Tokenizer)
    found = {
        f"model.positions={config.positions}": config.positions != "sinusoidal",
        f"model.activation={config.activation}": config.activation == "swiglu",
        f"model.n_kv_heads={config.n_kv_heads}": config.n_kv_heads not in (None, config.n_heads),
        f"model.head_dim={config.head_dim}": config.head_dim not in (None, heads),
        "model.qk_norm=true": config.qk_norm,
        f"model.norm=pre with model.tie_embeddings={config.tie_embeddings}": (
            config.norm == "pre" and not shared
        ),
        "model.zero_start=true": own and config.zero_start,
        "tokenizer.joint=false": own and not vocabularies.joint,
        "tokenizer.symbols": own and bool(vocabularies.source.symbols),  # type: ignore[union-attr]
    }
    return [name for name, stands in found.items() if stands]


def write_huggingface(given: HubModel, folder: Path) -> None:
    """Write a model that `AutoModelForSeq2SeqLM` and `AutoTokenizer` load, into a new folder.

    Raises:
        BundleError: the library has no such model; names what stands in the way.
        OSError: the disk is full, or the folder cannot be written.
    """
    config, vocabularies = given.model.config, given.vocabularies
    if reasons := obstacles(config, vocabularies):
        raise BundleError(
            "Hugging Face's Transformers library has no model with "
            f"{' and '.join(reasons)}: train one of model=base_marian, each of which can be "
            "exported, or export this one for ctranslate2"
        )
    assert isinstance(config, TransformerConfig)
    orders = [torch.tensor(order) for order in their_orders(vocabularies, config.zero_start)]
    marks = marian_marks(len(orders[1])) if config.zero_start else MARKS
    theirs = _their_config(config, [len(order) for order in orders]) | marks
    generation = _generation(given.decode, config) | marks
    files = {"config.json": theirs, "generation_config.json": generation}
    for name, content in files.items():
        write_json(folder / name, content)
    safetensors.torch.save_file(
        _their_weights(given.model, config, orders), folder / "model.safetensors", {"format": "pt"}
    )
    write_vocabulary(vocabularies, orders, given.languages, folder)


def _their_config(config: TransformerConfig, sizes: Sequence[int]) -> dict[str, Any]:
    kind = next(kind for kind, norm in KINDS.items() if norm == config.norm)
    names = {"marian": "MarianMTModel", "pegasus": "PegasusForConditionalGeneration"}
    found = {
        "seq2seq": __version__,
        "architectures": [names[kind]],
        "model_type": kind,
        "vocab_size": sizes[0],
        "d_model": config.d_model,
        "encoder_layers": config.encoder_layers,
        "decoder_layers": config.decoder_layers,
        "encoder_attention_heads": config.n_heads,
        "decoder_attention_heads": config.n_heads,
        "encoder_ffn_dim": config.d_ff,
        "decoder_ffn_dim": config.d_ff,
        "activation_function": config.activation,
        "dropout": config.dropout,
        "attention_dropout": config.attention_dropout,
        "scale_embedding": True,
        "max_position_embeddings": config.max_length,
        "is_encoder_decoder": True,
        "forced_eos_token_id": None,
        "tie_word_embeddings": config.tie_embeddings != "none",
    }
    if kind == "marian":
        found["share_encoder_decoder_embeddings"] = config.tie_embeddings == "all"
        found["decoder_vocab_size"] = sizes[1]
    return found


def _generation(decode: DecodeConfig, config: TransformerConfig) -> dict[str, Any]:
    """Their search with our settings."""
    exponent = {"none": 0.0, "average": decode.length_penalty}
    return {
        "num_beams": decode.beam,
        "length_penalty": exponent.get(decode.length_norm, 1.0),
        "early_stopping": decode.beam > 1,  # when as many as beams have ended, as ours
        "max_length": config.max_length,
    }


def marian_marks(size: int) -> dict[str, Any]:
    """The numbers of marks in a vocabulary of Marian, whose padding is last."""
    pad = size - 1
    marks = {"pad_token_id": pad, "decoder_start_token_id": pad, "bad_words_ids": [[pad]]}
    return {**marks, "bos_token_id": None, "eos_token_id": 0}


def _their_weights(
    model: Any, config: TransformerConfig, orders: Sequence[Tensor]
) -> dict[str, Tensor]:
    """Our weights by their names; `orders` are our ids by theirs, of source and target."""
    ours, order_D = model.state_dict(), _their_order(config.d_model)
    found = {
        name: _permuted(ours[own], dims, order_D) for own, name, dims in _weight_names(config)
    }
    bias = ours.get("output.bias")
    bias_V = torch.zeros(model.vocab_sizes[1]) if bias is None else bias
    rows = (orders[0], orders[1], orders[1])
    names = ("source_embedding.tokens", "target_embedding.tokens", "output")
    source, target, output = (
        _permuted(ours[f"{name}.weight"][own], (1,), order_D)
        for name, own in zip(names, rows, strict=True)
    )
    if config.zero_start:
        target[-1] = 0.0
        source[-1] = 0.0  # which is masked
    if config.tie_embeddings == "all":
        found["model.shared.weight"] = source
    else:
        found["model.encoder.embed_tokens.weight"] = source
        found["model.decoder.embed_tokens.weight"] = target
        if config.tie_embeddings == "none":
            found["lm_head.weight"] = output
    found["final_logits_bias"] = bias_V[orders[1]][None]
    return {name: value.contiguous() for name, value in found.items()}
