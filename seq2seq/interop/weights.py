"""Convert weights between our models and Marian or Pegasus models: their names and their order.

Their tokens have other ids, so the rows of embeddings and outputs are permuted. Their sinusoidal
positions have all sines in the first half of the model width. If ours alternate sines and cosines,
an export permutes, in each weight, the rows or columns that belong to the width.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from pickle import UnpicklingError

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor

from seq2seq.config import TransformerConfig
from seq2seq.errors import BundleError
from seq2seq.model.translation_model import TranslationModel

SOURCE, TARGET = 0, 1  # the side whose tokens are the rows of a weight
SHARED = "model.shared.weight"
# Our weights whose rows are tokens: their name, and the side of the tokens.
TABLES = {
    "source_embedding.tokens.weight": ("model.encoder.embed_tokens.weight", SOURCE),
    "target_embedding.tokens.weight": ("model.decoder.embed_tokens.weight", TARGET),
    "output.weight": ("lm_head.weight", TARGET),
    "output.bias": ("final_logits_bias", TARGET),
}
THEIRS = {name: theirs for name, (theirs, _) in TABLES.items()}
OF_SOURCE, OF_TARGET, OF_OUTPUT, BIAS = THEIRS.values()
# Patterns in our other names, and the replacements.
RENAMED = {
    r"^(encoder|decoder)\.(\d+)": r"model.\1.layers.\2",
    r"^(encoder|decoder)_norm": r"model.\1.layer_norm",
    "self_attention": "self_attn",
    "cross_attention": "encoder_attn",
    r"self_residual\.norm": "self_attn_layer_norm",
    r"cross_residual\.norm": "encoder_attn_layer_norm",
    r"feed_forward_residual\.norm": "final_layer_norm",
    r"feed_forward\.inner": "fc1",
    r"feed_forward\.outer": "fc2",
}
READERS = ("tokens", "output", "q_proj", "k_proj", "v_proj", "inner")  # whose columns are the width


def their_name(ours: str) -> str:
    """Return their name for a weight of ours."""
    if ours in THEIRS:
        return THEIRS[ours]
    for pattern, theirs in RENAMED.items():
        ours = re.sub(pattern, theirs, ours)
    return ours


def renumbered(ours: str, weight: Tensor, rows: Sequence[Tensor]) -> Tensor:
    """Reorder the rows of a weight if they are tokens."""
    return weight.index_select(0, rows[TABLES[ours][1]]) if ours in TABLES else weight


def read_weights(folder: Path, model: TranslationModel, rows: Sequence[Tensor]) -> None:
    """Copy their weights into our model, with our token ids.

    Args:
        rows: for each of our ids, the id in their vocabulary; for source and target.

    Raises:
        BundleError: weights are missing or damaged, or belong to another model.
    """
    theirs = dict(_load(folder))
    try:
        # A file has tied weights once, under one name or another.
        if SHARED in theirs:
            theirs = dict.fromkeys((OF_SOURCE, OF_TARGET), theirs[SHARED]) | theirs
        if model.config.tie_embeddings != "none":
            theirs[OF_OUTPUT] = theirs[OF_TARGET]
        theirs[BIAS] = theirs[BIAS].flatten()
        ours = model.state_dict()
        weights = {name: renumbered(name, theirs[their_name(name)], rows) for name in ours}
        model.load_state_dict(weights)
    except (KeyError, AttributeError, IndexError, RuntimeError) as error:
        raise BundleError(
            f"the weights in {folder} are not those of its config.json and vocabulary ({error!r}): "
            "download the model again"
        ) from error


def _load(folder: Path) -> Mapping[str, Tensor]:
    new, old = folder / "model.safetensors", folder / "pytorch_model.bin"
    path = new if new.is_file() else old
    try:
        if path == new:
            return safetensors.torch.load_file(path)
        weights: Mapping[str, Tensor] = torch.load(path, map_location="cpu", weights_only=True)
        return weights
    except UnpicklingError as error:
        raise BundleError(
            f"{path} holds more than weights, and reading it could run what somebody wrote into "
            "it: ask for model.safetensors"
        ) from error
    except (OSError, SafetensorError, RuntimeError, EOFError) as error:
        raise BundleError(
            f"cannot read the weights {path}: {error}. Download the model again, with "
            f"{new.name} or {old.name}"
        ) from error


def their_weights(
    model: TranslationModel, config: TransformerConfig, orders: Sequence[Tensor]
) -> dict[str, Tensor]:
    """Return our weights under their names, in their order; tied weights appear once.

    Args:
        orders: for each of their ids, the id in our vocabulary; for source and target.
    """
    ours = model.state_dict()
    ours.setdefault("output.bias", torch.zeros(model.vocab_sizes[1]))
    alternate = config.positions == "sinusoidal"
    places = torch.arange(config.d_model)
    order_D = torch.cat([places[0::2], places[1::2]]) if alternate else places
    found = {}
    for name, weight in ours.items():
        block, kind = name.split(".")[-2:]
        renamed = renumbered(name, weight, orders)
        if block not in READERS:  # its rows are the width
            renamed = renamed.index_select(0, order_D)
        elif kind == "weight":
            renamed = renamed.index_select(1, order_D)
        found[their_name(name)] = renamed.contiguous()
    found[BIAS] = found[BIAS][None]
    if config.zero_start:  # outputs start from padding, the last token
        for table in (OF_SOURCE, OF_TARGET):
            found[table][-1] = 0.0
    if config.tie_embeddings != "none":
        del found[OF_OUTPUT]
    if config.tie_embeddings == "all":
        del found[OF_TARGET]
        found[SHARED] = found.pop(OF_SOURCE)
    return found
