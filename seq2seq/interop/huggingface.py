"""Read and write Marian and Pegasus models of Hugging Face's Transformers, without that library.

Both are the transformer of this project under other names. `MarianMTModel` (OPUS-MT) is post-norm;
`PegasusForConditionalGeneration` is pre-norm. What differs:

- The order of tokens and the names of weights: `weights.py`.
- Positions: all their sines come before all cosines (`model.positions=sinusoidal_halves`).
- Token ids. PAD, BOS and EOS are 0, 1 and 2 here. In OPUS-MT the end mark is 0, and an output
  begins with padding, which is the last token and whose vector is zero (`model.zero_start`). See
  `vocabulary.py`.
- Their scores have a bias, `final_logits_bias`: `model.output_bias`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors.torch
import torch

from seq2seq import __version__
from seq2seq.config import DecodeConfig, ModelConfig, TransformerConfig
from seq2seq.data.tokenizer import BOS, EOS, PAD, Tokenizer
from seq2seq.data.vocabularies import Vocabularies
from seq2seq.errors import BundleError, UserError
from seq2seq.files import write_json
from seq2seq.interop.vocabulary import read_theirs, read_vocabulary, their_orders, write_vocabulary
from seq2seq.interop.weights import read_weights, their_weights
from seq2seq.model.build import Uninitialised
from seq2seq.model.transformer import Transformer
from seq2seq.model.translation_model import TranslationModel

ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "swish": "silu", "silu": "silu"}  # theirs: ours
KINDS = {"marian": "post", "pegasus": "pre"}  # their `model_type`: our `model.norm`
SPECIAL_IDS = {
    "pad_token_id": PAD,
    "bos_token_id": BOS,
    "eos_token_id": EOS,
    "decoder_start_token_id": BOS,
    "bad_words_ids": [[PAD], [BOS]],  # never outputs
}
NEVER = -30.0  # bias of a BOS that their model lacks: its probability is below 1e-12

# Our setting: theirs. If theirs are two, for encoder and decoder, their values must be equal.
SIZES = {
    "d_model": ("d_model",),
    "encoder_layers": ("encoder_layers",),
    "decoder_layers": ("decoder_layers",),
    "n_heads": ("encoder_attention_heads", "decoder_attention_heads"),
    "d_ff": ("encoder_ffn_dim", "decoder_ffn_dim"),
    "max_length": ("max_position_embeddings",),
    "dropout": ("dropout",),
    "attention_dropout": ("attention_dropout",),
}


@dataclass
class HubModel:
    """The parts that a model of the library shares with a bundle of ours.

    Attributes:
        model: the network, with our token ids.
        languages: codes of source and target; empty if unknown.
    """

    model: TranslationModel
    vocabularies: Vocabularies
    decode: DecodeConfig
    languages: list[str]


# In


def read_huggingface(folder: Path, name: str = "") -> HubModel:
    """Read a Marian or Pegasus model as one of ours, in float32.

    Args:
        folder: with `config.json`, weights (`model.safetensors`, or `pytorch_model.bin`), and a
            vocabulary: `source.spm`, `target.spm` and `vocab.json` (and `target_vocab.json` if
            there are two), or the `tokenizer.json` that `write_huggingface` wrote.
        name: name for the model; empty = the name of the folder.

    Raises:
        BundleError: a file is missing or damaged, or the model is of another kind, which is named.
    """
    theirs = read_theirs(folder / "config.json")
    words = read_vocabulary(folder, theirs)
    config = _model_config(folder, theirs, name or folder.name, words.starts)
    with Uninitialised():
        model = Transformer(config, *words.vocabularies.sizes)
    model.eval().requires_grad_(False)
    read_weights(folder, model, words.rows)
    if words.starts:
        model.output.bias[BOS] = NEVER
    decode = _decode_config(theirs | read_theirs(folder / "generation_config.json", optional=True))
    return HubModel(model, words.vocabularies, decode, words.languages)


def _model_config(
    folder: Path, theirs: Mapping[str, Any], name: str, zero_start: bool
) -> TransformerConfig:
    """Convert their settings to ours.

    Raises:
        BundleError: our models lack a part of theirs; the message names all such parts.
    """
    wrong = []
    if not theirs.get("scale_embedding"):
        wrong.append("scale_embedding=False")
    for names in SIZES.values():
        if len({str(theirs.get(name)) for name in names}) > 1:
            wrong.append(" with ".join(f"{name}={theirs.get(name)}" for name in names))
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
            **{own: theirs[names[0]] for own, names in SIZES.items()},
            norm=KINDS[theirs["model_type"]],
            activation=ACTIVATIONS[theirs.get("activation_function", "gelu")],
            positions="sinusoidal_halves",
            tie_embeddings="none" if not tied else "all" if shared else "decoder",
            output_bias=True,
            zero_start=zero_start,
        )
    except (KeyError, TypeError, UserError) as error:
        raise BundleError(f"{folder}/config.json does not describe its model: {error}") from error


def _decode_config(generation: Mapping[str, Any]) -> DecodeConfig:
    """Return the search settings of ours that are nearest to theirs."""
    penalty = generation.get("length_penalty")
    return DecodeConfig(
        beam=generation.get("num_beams") or 1,
        length_penalty=1.0 if penalty is None else max(0.0, float(penalty)),  # their default, too
    )


# Out


def obstacles(config: ModelConfig, vocabularies: Vocabularies) -> list[str]:
    """List the settings that the library cannot load without custom code."""
    if not isinstance(config, TransformerConfig):
        return [f"model.architecture={config.architecture}"]
    heads = config.d_model // config.n_heads
    shared = config.tie_embeddings == "all"
    own = isinstance(vocabularies.source, Tokenizer)
    found = {
        f"model.positions={config.positions}": (
            config.positions not in ("sinusoidal", "sinusoidal_halves")
        ),
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
        BundleError: the library has no such model; the message names the obstacles.
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
    special_ids = marian_special_ids(len(orders[1])) if config.zero_start else SPECIAL_IDS
    theirs = _their_config(config, [len(order) for order in orders])
    write_json(folder / "config.json", theirs | special_ids)
    generation = _generation(given.decode, config)
    write_json(folder / "generation_config.json", generation | special_ids)
    safetensors.torch.save_file(
        their_weights(given.model, config, orders), folder / "model.safetensors", {"format": "pt"}
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
        **{name: getattr(config, own) for own, names in SIZES.items() for name in names},
        "activation_function": config.activation,
        "scale_embedding": True,
        "is_encoder_decoder": True,
        "forced_eos_token_id": None,
        "tie_word_embeddings": config.tie_embeddings != "none",
    }
    if kind == "marian":
        found["share_encoder_decoder_embeddings"] = config.tie_embeddings == "all"
        found["decoder_vocab_size"] = sizes[1]
    return found


def _generation(decode: DecodeConfig, config: TransformerConfig) -> dict[str, Any]:
    """Convert our search settings to theirs."""
    exponent = {"none": 0.0, "average": decode.length_penalty}
    return {
        "num_beams": decode.beam,
        "length_penalty": exponent.get(decode.length_norm, 1.0),
        "early_stopping": decode.beam > 1,  # once `num_beams` have ended, as ours
        "max_length": config.max_length,
    }


def marian_special_ids(size: int) -> dict[str, Any]:
    """Return the ids of special tokens in a vocabulary of Marian, whose padding is last."""
    pad = size - 1
    special_ids = {"pad_token_id": pad, "decoder_start_token_id": pad, "bad_words_ids": [[pad]]}
    return {**special_ids, "bos_token_id": None, "eos_token_id": 0}
