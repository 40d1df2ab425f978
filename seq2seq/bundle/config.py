"""The `config.json` of a bundle: all facts about a model except its weights."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_type_hints

from seq2seq import __version__
from seq2seq.config import ARCHITECTURES, CleaningConfig, DecodeConfig, ModelConfig, migrated
from seq2seq.config.renames import removed
from seq2seq.data.vocabularies import JOINT, SEPARATE
from seq2seq.decoding.attention_head import AttentionHead
from seq2seq.errors import BundleError, UserError, nearest
from seq2seq.files import checksum, read_json

log = logging.getLogger(__name__)

FORMAT = 1
WEIGHTS = "model.safetensors"
FILES = ("config.json", WEIGHTS)  # and vocabularies
MODEL = (*FILES, "model.bin", JOINT, *SEPARATE)  # files that define one, here or for CTranslate2


class DamagedBundle(BundleError):
    """A bundle exists, but its content cannot be right."""

    exit_code = 2


class Trained:
    """Facts about a model that follow from its training.

    Attributes:
        training: the record of its training: settings, step, scores.
        normalise: steps that change a source before the model reads it (`seq2seq/text.py`).
        decode: the search settings of its validation.
    """

    training: dict[str, Any]
    normalise: list[str]
    decode: DecodeConfig

    @property
    def normalise_target(self) -> list[str]:
        """Steps that normalised the targets of the training corpus, as `normalise` the sources.

        The two differ in the steps for French (`CleaningConfig.steps`), which follow from the
        settings.
        """
        cleaning = self.training.get("config", {}).get("cleaning", {})
        known = {name: cleaning[name] for name in ("languages", "normalise") if name in cleaning}
        return CleaningConfig(**known).steps(1) if "normalise" in known else list(self.normalise)

    @property
    def languages(self) -> tuple[str, str]:
        """Language codes of source and target."""
        cleaning = self.training.get("config", {}).get("cleaning", {})
        source, target = cleaning.get("languages", ("en", "fr"))
        return source, target

    @property
    def length_ratio(self) -> float:
        """Target tokens per source token in the training corpus; 1 if unknown."""
        return float(self.training.get("length_ratio", 1.0))


@dataclass
class BundleConfig(Trained):
    """The content of a bundle's `config.json`.

    Attributes:
        vocab_sizes: of source and target.
        alignment: the attention head that aligns best.
        checksums: SHA-256 of files, by name; older bundles have none.
    """

    model: ModelConfig
    vocab_sizes: tuple[int, int]
    decode: DecodeConfig
    training: dict[str, Any]
    normalise: list[str]
    alignment: AttentionHead
    checksums: dict[str, str]


def read_config(path: Path) -> BundleConfig:
    """Read the `config.json` of a bundle.

    Raises:
        BundleError: it is missing, damaged, of another format, or no bundle's.
    """
    config = migrated(_of_our_format(path))
    try:
        training = dict(config["training"])
        if isinstance(settings := training.get("config"), dict):
            training["config"] = migrated(settings)
        sizes = dict(config["model"])
        sizes.pop("word_dropout", None)  # a setting of training, since removed
        # Bundles from before there was a choice lack the entry.
        architecture = sizes.get("architecture", "transformer")
        if architecture not in ARCHITECTURES:
            raise ValueError(f"{architecture} is not known: {nearest(architecture, ARCHITECTURES)}")
        vocab_size = config["vocab_size"]  # one number, or one each for source and target
        source, target = vocab_size if isinstance(vocab_size, list) else (vocab_size, vocab_size)
        schema = ARCHITECTURES[architecture]
        return BundleConfig(
            model=_settings(schema, "model", sizes),
            vocab_sizes=(int(source), int(target)),
            decode=_decode(path, dict(config["decode"])),
            training=training,
            # Bundles from before there was a choice read texts unchanged.
            normalise=CleaningConfig(normalise=list(config.get("normalise", []))).normalise,
            # Bundles from before the head was chosen on validation data have the default.
            alignment=_settings(AttentionHead, "alignment", config.get("alignment", {})),
            checksums=dict(config.get("sha256", {})),
        )
    except (KeyError, TypeError, ValueError, OverflowError, UserError) as error:
        said = f"it has no {error}" if isinstance(error, KeyError) else str(error)
        raise DamagedBundle(f"{path} does not describe a model of this project: {said}") from error


def _settings(schema: type, section: str, stored: Mapping[str, Any]) -> Any:
    """Make a `schema` of stored settings; raise ValueError if a value has another type."""
    kinds = get_type_hints(schema)
    for name, value in dict(stored).items():
        kind = kinds.get(name, object)  # the class itself refuses an unknown name
        right = isinstance(value, int | float) if kind is float else isinstance(value, kind)
        if not right or (isinstance(value, bool) and kind is not bool and name in kinds):
            said = getattr(kind, "__name__", kind)
            raise ValueError(f"{section}.{name}={value!r} is not of type {said}")
    return schema(**stored)


def _decode(path: Path, stored: dict[str, Any]) -> DecodeConfig:
    """Read stored search settings. If some no longer exist, warn that a plain beam is used."""
    if gone := removed({"decode": stored}):
        said = ", ".join(gone)
        log.warning("%s asks for %s, which is gone: a plain beam searches instead", path, said)
    kept = {name: v for name, v in stored.items() if not removed({"decode": {name: v}})}
    return _settings(DecodeConfig, "decode", kept)


def _of_our_format(path: Path) -> dict[str, Any]:
    try:
        config = read_json(path)
    except (OSError, ValueError) as error:
        raise DamagedBundle(f"cannot read {path}: {error}. Copy the whole bundle again") from error
    if "format" not in config:
        raise BundleError(
            f"{path} was not written by this project (it names no format): give a bundle that "
            "training wrote to <run>/bundle"
        )
    if config["format"] != FORMAT:
        raise BundleError(
            f"{path} has format {config['format']}, this version of seq2seq ({__version__}) "
            f"reads format {FORMAT}: install the version that wrote it ({config.get('seq2seq')})"
        )
    return config


def bundle_digest(folder: Path) -> str:
    """Hash (SHA-256) the files that define a model; its card is not one of them.

    Args:
        folder: of a bundle, or of a model converted for CTranslate2.
    """
    digest = hashlib.sha256()
    for name in MODEL:
        if (folder / name).is_file():
            digest.update(bytes.fromhex(checksum(folder / name)))
    return digest.hexdigest()


def require_checksums(folder: Path, config: BundleConfig) -> None:
    """Raise DamagedBundle if a file has changed since the bundle was saved."""
    for name, expected in config.checksums.items():
        if (folder / name).is_file() and checksum(folder / name) != expected:
            raise DamagedBundle(
                f"{folder / name} is not the file that was saved with this bundle (another "
                "SHA-256): copy the bundle again, or, if you changed the file yourself, delete "
                "the entry `sha256` in config.json"
            )
