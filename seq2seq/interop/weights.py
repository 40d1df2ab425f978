"""The weights of Marian and Pegasus models: by our names and theirs, in our order and theirs.

Their tokens have other numbers, so that embeddings and outputs have their rows permuted. And where
our sinusoidal positions alternate sines and cosines, theirs have the sines in the first half of the
width: on the way out, each weight that reads or writes the width has its columns or rows permuted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from pickle import UnpicklingError
from typing import NamedTuple

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor

from seq2seq.config import TransformerConfig
from seq2seq.errors import BundleError
from seq2seq.model.translation_model import TranslationModel

# Ours: theirs, of a layer.
ATTENTIONS = {"self_attention": "self_attn", "cross_attention": "encoder_attn"}
NORMS = {
    "self_residual": "self_attn_layer_norm",
    "cross_residual": "encoder_attn_layer_norm",
    "feed_forward_residual": "final_layer_norm",
}
SOURCE, TARGET = 0, 1  # whose tokens are the rows of a weight
SHARED = "model.shared.weight"
TABLES = {
    "source": "model.encoder.embed_tokens.weight",
    "target": "model.decoder.embed_tokens.weight",
    "output": "lm_head.weight",
}


class Weight(NamedTuple):
    """A weight of both models.

    Attributes:
        ours, theirs: its names.
        wide: which of its dimensions are as wide as the model.
        tokens: SOURCE or TARGET if its rows are tokens.
    """

    ours: str
    theirs: str
    wide: tuple[int, ...] = ()
    tokens: int | None = None

    def renumbered(self, weight: Tensor, rows: Sequence[Tensor]) -> Tensor:
        """With its tokens in another order."""
        return weight if self.tokens is None else weight.index_select(0, rows[self.tokens])


def all_weights(config: TransformerConfig) -> Iterator[Weight]:
    """Each weight of a model of these sizes."""
    yield Weight("source_embedding.tokens.weight", TABLES["source"], (1,), SOURCE)
    yield Weight("target_embedding.tokens.weight", TABLES["target"], (1,), TARGET)
    yield Weight("output.weight", TABLES["output"], (1,), TARGET)
    yield Weight("output.bias", "final_logits_bias", (), TARGET)
    for side, layers in (("encoder", config.encoder_layers), ("decoder", config.decoder_layers)):
        for i in range(layers):
            yield from _layer_weights(side, f"{side}.{i}", f"model.{side}.layers.{i}")
        if config.norm == "pre":
            yield from _norm(f"{side}_norm", f"model.{side}.layer_norm")


def _layer_weights(side: str, ours: str, theirs: str) -> Iterator[Weight]:
    for own, their in ATTENTIONS.items():
        if own != "cross_attention" or side == "decoder":
            for part in "qkv":
                yield from _reads(f"{ours}.{own}.{part}_proj", f"{theirs}.{their}.{part}_proj")
            yield from _writes(f"{ours}.{own}.out_proj", f"{theirs}.{their}.out_proj")
    yield from _reads(f"{ours}.feed_forward.inner", f"{theirs}.fc1")
    yield from _writes(f"{ours}.feed_forward.outer", f"{theirs}.fc2")
    for own, their in NORMS.items():
        if own != "cross_residual" or side == "decoder":
            yield from _norm(f"{ours}.{own}.norm", f"{theirs}.{their}")


def _reads(ours: str, theirs: str) -> Iterator[Weight]:
    """A linear layer whose inputs are as wide as the model."""
    yield Weight(f"{ours}.weight", f"{theirs}.weight", (1,))
    yield Weight(f"{ours}.bias", f"{theirs}.bias")


def _writes(ours: str, theirs: str) -> Iterator[Weight]:
    """A linear layer whose outputs are."""
    yield Weight(f"{ours}.weight", f"{theirs}.weight", (0,))
    yield Weight(f"{ours}.bias", f"{theirs}.bias", (0,))


def _norm(ours: str, theirs: str) -> Iterator[Weight]:
    for name in ("weight", "bias"):
        yield Weight(f"{ours}.{name}", f"{theirs}.{name}", (0,))


def read_weights(
    folder: Path, config: TransformerConfig, rows: Sequence[Tensor]
) -> dict[str, Tensor]:
    """Their weights by our names, with our numbers of tokens, in float32.

    Args:
        folder: of their model.
        config: what its `config.json` says.
        rows: which of their tokens is each of ours, of source and target.

    Raises:
        BundleError: weights are missing or damaged, or those of another model.
    """
    theirs = dict(_load(folder))
    try:
        # Tied ones stand in a file once, under one name or another.
        if SHARED in theirs:
            theirs = dict.fromkeys((TABLES["source"], TABLES["target"]), theirs[SHARED]) | theirs
        if config.tie_embeddings != "none":
            theirs[TABLES["output"]] = theirs[TABLES["target"]]
        theirs["final_logits_bias"] = theirs["final_logits_bias"].flatten()
        found = {
            one.ours: one.renumbered(theirs[one.theirs].float(), rows)
            for one in all_weights(config)
        }
    except (KeyError, AttributeError, IndexError, RuntimeError) as error:
        raise BundleError(
            f"the weights in {folder} are not those of its config.json and vocabulary ({error!r}): "
            "download the model again"
        ) from error
    return found


def _load(folder: Path) -> Mapping[str, Tensor]:
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


def their_weights(
    model: TranslationModel, config: TransformerConfig, orders: Sequence[Tensor]
) -> dict[str, Tensor]:
    """Our weights by their names, in their order; tied ones once.

    Args:
        model: whose weights they are.
        config: its settings.
        orders: which of our tokens is each of theirs, of source and target.
    """
    ours = model.state_dict()
    ours.setdefault("output.bias", torch.zeros(model.vocab_sizes[1]))
    alternate = config.positions == "sinusoidal"
    places = torch.arange(config.d_model)
    order_D = torch.cat([places[0::2], places[1::2]]) if alternate else places
    found = {}
    for one in all_weights(config):
        weight = one.renumbered(ours[one.ours], orders)
        for dim in one.wide:
            weight = weight.index_select(dim, order_D)
        found[one.theirs] = weight.contiguous()
    found["final_logits_bias"] = found["final_logits_bias"][None]
    if config.zero_start:  # outputs start from the last token, padding
        for name in (TABLES["source"], TABLES["target"]):
            found[name][-1] = 0.0
    if config.tie_embeddings != "none":
        del found[TABLES["output"]]
    if config.tie_embeddings == "all":
        del found[TABLES["target"]]
        found[SHARED] = found.pop(TABLES["source"])
    return found
