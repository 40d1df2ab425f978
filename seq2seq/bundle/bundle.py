"""A bundle: a trained model as a folder that is read without pickle.

model.safetensors   weights in 32 bits, or in 16 bits if shipped; loaded as 32-bit weights
config.json         format version, sizes, normalisation, decode settings, how it was trained
tokenizer.json      vocabulary; or tokenizer.source.json and tokenizer.target.json
README.md           model card
"""

from __future__ import annotations

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
from seq2seq.files import atomic_folder, checksum, write_json
from seq2seq.model.attention_maps import cross_attentions
from seq2seq.model.build import Uninitialised, build_model
from seq2seq.model.translation_model import TranslationModel


@dataclass
class Bundle(Trained):
    """Everything that is needed to translate.

    Attributes:
        alignment: the attention head that aligns best (`inference/head_selection.py`).
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
        """Save the bundle in a folder and replace an older bundle there.

        An interrupted save leaves the older bundle.

        Args:
            dtype: type of the weights in the file; None = unchanged.
            card: text of README.md; None = `model_card`. Checksums of the files are added below it.

        Raises:
            RunError: the disk is full, or the folder cannot be written.
        """
        weights = {name: w.to(dtype or w.dtype) for name, w in unique_weights(self.model).items()}
        try:
            with atomic_folder(folder) as partial:
                self._write(partial, weights, model_card(self) if card is None else card)
        except (SafetensorError, OSError) as error:
            raise RunError(
                f"the bundle {folder} cannot be written: {error}. Make room or correct the "
                "folder's permissions"
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
        write_json(folder / "config.json", config)
        # safetensors makes its file readable for the owner only, but bundles are made to be shared.
        shutil.copymode(folder / "config.json", folder / WEIGHTS)
        (folder / "README.md").write_text(f"{card}\n{files(checksums)}", encoding="utf-8")


def unique_weights(model: TranslationModel) -> dict[str, torch.Tensor]:
    """Return the weights by name; tied weights appear once, under their first name."""
    return {name: weight.detach().contiguous() for name, weight in model.named_parameters()}


def load_bundle(folder: str | Path, device: torch.device | str = "cpu") -> Bundle:
    """Load a bundle, the bundle of a run, or a shipped bundle by its name.

    Raises:
        BundleError: the folder is missing, no bundle, damaged or newer than this code.
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
    require_checksums(folder, config)  # last, since the errors above say more
    heads = getattr(config.model, "n_heads", 1)  # a recurrent model has one head
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
    """Raise BundleError unless bundles, given with their names, can form an ensemble."""
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
def translate_read_errors(path: Path) -> Iterator[None]:
    """Raise DamagedBundle if the weights in a file cannot be read."""
    try:
        yield
    except (SafetensorError, OSError) as error:
        raise DamagedBundle(
            f"cannot read the weights {path}: {error}. The file is damaged or incomplete; copy "
            "or train it again"
        ) from error


@torch.no_grad()
def _load_model(config: BundleConfig, path: Path) -> TranslationModel:
    """Build the model of a config, with the weights of a file.

    The model's shapes are compared with those of the file before memory is allocated.
    """
    with translate_read_errors(path), safe_open(path, "pt") as file:
        names: list[str] = list(file.keys())
        _require_same_shapes(config, {n: tuple(file.get_slice(n).get_shape()) for n in names})
        with Uninitialised():
            model = build_model(config.model, *config.vocab_sizes)
        for name, weight in model.named_parameters():
            value = file.get_tensor(name)
            if not value.isfinite().all():
                raise DamagedBundle(
                    f"the weights {path} have values that are not finite (in {name}): the "
                    "model was saved after its training had failed, or the file is damaged; take "
                    "another bundle"
                )
            weight.copy_(value)
    return model


def _require_same_shapes(config: BundleConfig, found: Mapping[str, tuple[int, ...]]) -> None:
    """Raise DamagedBundle unless a file's tensors have the names and shapes of a config's model."""
    layers = max(getattr(config.model, f"{side}_layers", 0) for side in ("encoder", "decoder"))
    if layers > len(found):  # building a million of them takes hours
        faults = [f"{layers} layers, and the file has {len(found)} tensors"]
    else:
        with torch.device("meta"), Uninitialised():
            model = build_model(config.model, *config.vocab_sizes)
        expected = {name: tuple(weight.shape) for name, weight in model.named_parameters()}
        faults = [
            f"{name} is {found.get(name, 'missing')} in the file, and "
            f"{expected.get(name, 'missing')} by these sizes"
            for name in (*expected, *found)
            if found.get(name) != expected.get(name)
        ]
    if faults:
        raise DamagedBundle(
            f"the weights do not fit the sizes in config.json: {faults[0]}. Use the config.json "
            "that was saved with them"
        )
