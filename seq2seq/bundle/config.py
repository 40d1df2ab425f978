"""What the `config.json` of a bundle says: all that is known of a model without its weights."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_type_hints

from seq2seq import __version__
from seq2seq.config import ARCHITECTURES, CleaningConfig, DecodeConfig, ModelConfig, migrated
from seq2seq.config.renames import REMOVED
from seq2seq.data.vocabularies import JOINT, SEPARATE
from seq2seq.decoding.attention_head import AttentionHead
from seq2seq.errors import BundleError, UserError, nearest
from seq2seq.files import checksum, read_json

log = logging.getLogger(__name__)

FORMAT = 1
WEIGHTS = "model.safetensors"
FILES = ("config.json", WEIGHTS)  # and vocabularies
MODEL = (*FILES, "model.bin", JOINT, *SEPARATE)  # what makes one, here or for CTranslate2


class DamagedBundle(BundleError):
    """A bundle is there, and what it holds cannot be right."""

    exit_code = 2


class Trained:
    """What follows from how a model was trained.

    Attributes:
        training: what is known of its making: settings, step, scores.
        normalise: what is done to a source before the model reads it (`seq2seq/text.py`).
        decode: the search settings it was validated with.
    """

    training: dict[str, Any]
    normalise: list[str]
    decode: DecodeConfig

    @property
    def normalise_target(self) -> list[str]:
        """What was done to the targets of its training corpus: `normalise` to its sources.

        They differ in the steps for French (`CleaningConfig.steps`), which the settings tell.
        """
        cleaning = self.training.get("config", {}).get("cleaning", {})
        known = {name: cleaning[name] for name in ("languages", "normalise") if name in cleaning}
        return CleaningConfig(**known).steps(1) if "normalise" in known else list(self.normalise)

    @property
    def languages(self) -> tuple[str, str]:
        """Codes of source and target."""
        cleaning = self.training.get("config", {}).get("cleaning", {})
        source, target = cleaning.get("languages", ("en", "fr"))
        return source, target

    @property
    def length_ratio(self) -> float:
        """Target tokens per source token in its training corpus; 1 if nobody knows."""
        return float(self.training.get("length_ratio", 1.0))


@dataclass
class BundleConfig(Trained):
    """What `config.json` says.

    Attributes:
        model: sizes and kinds.
        vocab_sizes: of source and target.
        decode: the search settings it was validated with.
        alignment: the attention that aligns best.
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
        BundleError: it is missing, foreign, damaged or of another format.
    """
    config = migrated(_of_our_format(path))
    try:
        training = dict(config["training"])
        if isinstance(settings := training.get("config"), dict):
            training["config"] = migrated(settings)
        sizes = dict(config["model"])
        sizes.pop("word_dropout", None)  # of training alone, and gone
        # Bundles of before there was a choice do not name it.
        architecture = sizes.get("architecture", "transformer")
        if architecture not in ARCHITECTURES:
            raise ValueError(f"{architecture} is not known: {nearest(architecture, ARCHITECTURES)}")
        vocab_size = config["vocab_size"]  # one number, or those of the source and the target
        source, target = vocab_size if isinstance(vocab_size, list) else (vocab_size, vocab_size)
        schema = ARCHITECTURES[architecture]
        return BundleConfig(
            model=schema(**_typed(schema, "model", sizes)),
            vocab_sizes=(int(source), int(target)),
            decode=_decode(path, dict(config["decode"])),
            training=training,
            # Bundles of before there was a choice read texts as they are.
            normalise=CleaningConfig(normalise=list(config.get("normalise", []))).normalise,
            # Before one was chosen on validation data, there was the default.
            alignment=AttentionHead(**config.get("alignment", {})),
            checksums=dict(config.get("sha256", {})),
        )
    except (KeyError, TypeError, ValueError, OverflowError, UserError) as error:
        said = f"it has no {error}" if isinstance(error, KeyError) else str(error)
        raise DamagedBundle(f"{path} does not describe a model of this project: {said}") from error


def _typed(schema: type, section: str, stored: Mapping[str, Any]) -> dict[str, Any]:
    """Settings as they were stored; ValueError for a value of another type than the setting's."""
    kinds = get_type_hints(schema)
    for name, value in stored.items():
        kind = kinds.get(name, object)  # what is no setting is told by the class itself
        right = isinstance(value, int | float) if kind is float else isinstance(value, kind)
        if not right or (isinstance(value, bool) and kind is not bool and name in kinds):
            said = getattr(kind, "__name__", kind)
            raise ValueError(f"{section}.{name}={value!r} is no {said}")
    return dict(stored)


def _decode(path: Path, stored: dict[str, Any]) -> DecodeConfig:
    """Search settings; where they ask for what is gone, a warning says so, and a beam searches."""
    gone = {name: value for name, value in stored.items() if f"decode.{name}" in REMOVED}
    kept = {name: value for name, value in stored.items() if name not in gone}
    if kept.get("strategy") == "mbr":
        gone["strategy"] = kept.pop("strategy")
    if gone:
        said = ", ".join(f"decode.{name}={value}" for name, value in gone.items())
        log.warning("%s asks for %s, which is gone: a plain beam searches instead", path, said)
    return DecodeConfig(**_typed(DecodeConfig, "decode", kept))


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
    """A SHA-256 of all that makes a model what it is; its card may change.

    Args:
        folder: of a bundle, or of what it was converted to for CTranslate2.
    """
    digest = hashlib.sha256()
    for name in MODEL:
        if (folder / name).is_file():
            digest.update(bytes.fromhex(checksum(folder / name)))
    return digest.hexdigest()


def require_checksums(folder: Path, config: BundleConfig) -> None:
    """Raise DamagedBundle where a file is not the one that was saved."""
    for name, expected in config.checksums.items():
        if (folder / name).is_file() and checksum(folder / name) != expected:
            raise DamagedBundle(
                f"{folder / name} is not the file that was saved with this bundle (another "
                "SHA-256): copy the bundle again, or, if you changed the file yourself, delete "
                "the entry `sha256` in config.json"
            )
