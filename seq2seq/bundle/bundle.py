"""A trained model as a folder that needs no pickle to be read.

model.safetensors   weights, in 32 bits, or in 16 where they are shipped; read as 32-bit ones
config.json         format version, sizes, normalisation, decode settings, how it was trained
tokenizer.json      vocabulary; or tokenizer.source.json and tokenizer.target.json
README.md           model card
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from safetensors import SafetensorError, safe_open

from seq2seq import __version__
from seq2seq.bundle.card import files, model_card
from seq2seq.bundle.config import (
    FORMAT,
    WEIGHTS,
    BundleConfig,
    DamagedBundle,
    Trained,
    read_config,
    require_checksums,
)
from seq2seq.bundle.find import bundle_folder
from seq2seq.config import DecodeConfig
from seq2seq.data.vocabularies import Vocabularies
from seq2seq.decoding.attention_head import AttentionHead
from seq2seq.errors import BundleError, RunError
from seq2seq.files import atomic_folder, checksum
from seq2seq.model.attention_maps import cross_attentions
from seq2seq.model.build import Uninitialised, build_model
from seq2seq.model.translation_model import TranslationModel


@dataclass
class Bundle(Trained):
    """Everything that is needed to translate.

    Attributes:
        model: the network.
        vocabularies: of its source and its target.
        decode: the search settings it was validated with.
        alignment: the attention that aligns best (`inference/head_choice.py`).
    """

    model: TranslationModel
    vocabularies: Vocabularies
    decode: DecodeConfig
    training: dict[str, Any]
    normalise: list[str] = field(default_factory=list)
    alignment: AttentionHead = field(default_factory=AttentionHead)

    def save(
        self, folder: Path, *, dtype: torch.dtype | None = None, card: str | None = None
    ) -> None:
        """Write the folder, replacing a bundle that stands there; whole or not at all.

        Args:
            folder: of the bundle.
            dtype: of the weights in the file; None = as they are.
            card: the README.md; None = `model_card`. Checksums of the files stand below it.

        Raises:
            RunError: the disk is full, or the folder cannot be written; a weight is too large
                for the type.
        """
        weights = unique_weights(self.model)
        if dtype is not None:
            weights = {name: _rounded(name, value, dtype) for name, value in weights.items()}
        try:
            with atomic_folder(folder) as partial:
                self._write(partial, weights, model_card(self) if card is None else card)
        except (SafetensorError, OSError) as error:
            raise RunError(
                f"the bundle {folder} cannot be written: {error}. Make room or mend the folder"
            ) from error

    def _write(self, folder: Path, weights: dict[str, torch.Tensor], card: str) -> None:
        safetensors.torch.save_file(weights, str(folder / WEIGHTS))
        self.vocabularies.save(folder)
        checksums = {path.name: checksum(path) for path in sorted(folder.iterdir())}
        source_size, target_size = self.model.vocab_sizes
        config = {
            "format": FORMAT,
            "seq2seq": __version__,
            "vocab_size": source_size if self.vocabularies.joint else [source_size, target_size],
            "model": asdict(self.model.config),
            "normalise": self.normalise,
            "decode": asdict(self.decode),
            "alignment": asdict(self.alignment),
            "training": self.training,
            "sha256": checksums,
        }
        text = json.dumps(config, indent=2, ensure_ascii=False) + "\n"
        (folder / "config.json").write_text(text, encoding="utf-8")
        # The library makes the file readable for its owner alone; a bundle is made to be given.
        shutil.copymode(folder / "config.json", folder / WEIGHTS)
        (folder / "README.md").write_text(f"{card}\n{files(checksums)}", encoding="utf-8")


def unique_weights(model: TranslationModel) -> dict[str, torch.Tensor]:
    """The weights by name, tied ones once, under their first name: the same file each time."""
    weights: dict[int, tuple[str, torch.Tensor]] = {}
    for name, value in model.state_dict().items():
        weights.setdefault(value.data_ptr(), (name, value.contiguous()))
    return dict(weights.values())


def _rounded(name: str, value: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """A weight in another type; RunError if it is too large for it."""
    rounded = value.to(dtype)
    if rounded.isinf().any() and not value.isinf().any():
        raise RunError(
            f"the weight {name} has values up to {value.abs().max():.3g}, which {dtype} cannot "
            "hold: save it as torch.bfloat16 or in 32 bits"
        )
    return rounded


def load_bundle(folder: str | Path, device: torch.device | str = "cpu") -> Bundle:
    """Read a bundle, the bundle of a run, or a shipped one by its name.

    Raises:
        BundleError: the folder is missing, foreign, damaged or newer than this code.
    """
    folder = bundle_folder(folder)
    config = read_config(folder / "config.json")
    vocabularies = Vocabularies.load(folder)
    if vocabularies.sizes != config.vocab_sizes:
        have, needed = (" + ".join(map(str, v)) for v in (vocabularies.sizes, config.vocab_sizes))
        raise DamagedBundle(
            f"{folder}: the vocabularies have {have} tokens (source + target) but the model "
            f"{needed}: the files come from different runs; copy the whole bundle again"
        )
    model = _load_model(config, folder / WEIGHTS)
    require_checksums(folder, config)  # the faults above say more
    heads = getattr(config.model, "n_heads", 1)  # a recurrent model looks once
    if not config.alignment.exists(len(cross_attentions(model)), heads):
        raise DamagedBundle(
            f"{folder}/config.json aligns by {config.alignment}, which this model lacks: delete "
            "the entry `alignment` there, or copy the whole bundle again"
        )
    return Bundle(
        model.to(device).eval(),
        vocabularies,
        config.decode,
        config.training,
        config.normalise,
        config.alignment,
    )


def require_same_language(bundles: Sequence[tuple[str, Bundle]]) -> None:
    """Raise BundleError unless bundles, with their names, can be searched as one."""
    (name, first), *others = bundles
    for other, bundle in others:
        if bundle.vocabularies.content_hash() != first.vocabularies.content_hash():
            raise BundleError(
                f"{other} has another vocabulary than {name}, so they cannot vote on the next "
                "token: give models that were trained with one vocabulary (tokenizer.path=...)"
            )
        if bundle.normalise != first.normalise:
            raise BundleError(
                f"{other} reads texts normalised by {bundle.normalise} and {name} by "
                f"{first.normalise}: give models that were trained on the same text"
            )


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Raise DamagedBundle if the weights in a file cannot be read."""
    try:
        yield
    except (SafetensorError, OSError) as error:
        raise DamagedBundle(
            f"cannot read the weights {path}: {error}. The file is damaged or incomplete; copy "
            "or train it again"
        ) from error


def _load_model(config: BundleConfig, path: Path) -> TranslationModel:
    """The model of a config with the weights of a file.

    Its sizes are compared with those of the file before any memory is taken.
    """
    try:
        with reading(path), safe_open(path, "pt") as file:
            names = list(file.keys())
            shapes = {name: tuple(file.get_slice(name).get_shape()) for name in names}
            for name in ("encoder_layers", "decoder_layers"):  # a million of them take hours
                if (layers := getattr(config.model, name, 0)) > len(shapes):
                    raise ValueError(f"{name}={layers}, and the file has {len(shapes)} tensors")
            with torch.device("meta"), Uninitialised():
                _require_same_tensors(build_model(config.model, *config.vocab_sizes), shapes)
            with Uninitialised():
                model = build_model(config.model, *config.vocab_sizes)
            own = model.state_dict()
            for name in shapes:
                value = file.get_tensor(name)
                if not value.isfinite().all():
                    raise DamagedBundle(
                        f"the weights {path} have values that are no finite numbers (in {name}): "
                        "the model was saved after its training had failed, or the file is "
                        "damaged; take another bundle"
                    )
                own[name].copy_(value)
    except ValueError as error:
        raise DamagedBundle(
            f"the weights {path} do not fit the sizes in config.json: {error}. Use the "
            "config.json that was saved with them"
        ) from error
    return model


def _require_same_tensors(model: TranslationModel, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Raise ValueError unless a file has the tensors of a model; of tied ones it has one."""
    own = model.state_dict(keep_vars=True)
    there = {id(own[name]) for name in shapes if name in own}
    faults = [
        *(f"unexpected {name}" for name in shapes if name not in own),
        *(f"missing {name}" for name, value in own.items() if id(value) not in there),
        *(f"{name} is {shapes[name]} there and {tuple(value.shape)} by its sizes"
          for name, value in own.items() if shapes.get(name, value.shape) != tuple(value.shape)),
    ]  # fmt: skip
    if faults:
        more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
        raise ValueError(faults[0] + more)
