"""Where a bundle is, and what its `config.json` says: all that is known without its weights."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from seq2seq import __version__
from seq2seq.config import ARCHITECTURES, CleaningConfig, DecodeConfig, ModelConfig, migrated
from seq2seq.config.renames import REMOVED
from seq2seq.data.vocabularies import missing_files
from seq2seq.decoding.attention_head import AttentionHead
from seq2seq.errors import BundleError, UserError, command_line, nearest
from seq2seq.inference.shipped import model_folder

log = logging.getLogger(__name__)

FORMAT = 1
FILES = ("config.json", "model.safetensors")  # and vocabularies


def bundle_folder(name: str | Path) -> Path:
    """The bundle itself, given it, the run that holds it, or the name of a shipped one.

    Raises:
        BundleError: neither is there; says what is.
    """
    folder = model_folder(name)
    if (folder / "bundle" / "config.json").is_file():
        folder = folder / "bundle"
    elif (folder / "checkpoints").is_dir():
        raise BundleError(
            f"the run {folder} has no bundle yet: one is written at its first validation; "
            f"to go on training: {command_line('train', f'resume={folder}')}"
        )
    if is_exported(folder):
        raise BundleError(
            f"{folder} was exported from a bundle for ctranslate2: give the bundle, or use it with "
            "translate --engine ctranslate2"
        )
    missing = [name for name in FILES if not (folder / name).is_file()] + missing_files(folder)
    if missing:
        raise BundleError(
            f"{folder} is no model bundle: {', '.join(missing)} missing. A bundle holds "
            f"{', '.join(FILES)} and tokenizer.json; training writes one to <run>/bundle"
        )
    return folder


def is_exported(folder: Path) -> bool:
    """Whether a folder holds what a bundle was converted to for CTranslate2."""
    return (folder / "model.bin").is_file()


@dataclass
class BundleConfig:
    """What `config.json` says."""

    model: ModelConfig
    vocab_sizes: tuple[int, int]
    decode: DecodeConfig
    training: dict[str, Any]
    normalise: list[str]
    alignment: AttentionHead

    @property
    def normalise_target(self) -> list[str]:
        """As `Bundle.normalise_target`."""
        return target_steps(self.training, self.normalise)

    @property
    def length_ratio(self) -> float:
        """As `Bundle.length_ratio`."""
        return known_length_ratio(self.training)


def target_steps(training: dict[str, Any], normalise: Sequence[str]) -> list[str]:
    """What was done to the targets of a training corpus: `normalise` to its sources.

    They differ in the steps for French (`CleaningConfig.steps`), which the settings tell.
    """
    cleaning = training.get("config", {}).get("cleaning", {})
    known = {name: cleaning[name] for name in ("languages", "normalise") if name in cleaning}
    return CleaningConfig(**known).steps(1) if "normalise" in known else list(normalise)


def known_length_ratio(training: dict[str, Any]) -> float:
    """Target tokens per source token in a training corpus; 1 if nobody knows."""
    return float(training.get("length_ratio", 1.0))


def read_config(path: Path) -> BundleConfig:
    """Read the `config.json` of a bundle.

    Raises:
        BundleError: it is missing, foreign, damaged or of another format.
    """
    config = migrated(_read_json(path))
    try:
        sizes = dict(config["model"])
        # Bundles of before there was a choice do not name it.
        architecture = sizes.get("architecture", "transformer")
        if architecture not in ARCHITECTURES:
            raise ValueError(f"{architecture} is not known: {nearest(architecture, ARCHITECTURES)}")
        vocab_size = config["vocab_size"]  # one number, or those of the source and the target
        source, target = vocab_size if isinstance(vocab_size, list) else (vocab_size, vocab_size)
        return BundleConfig(
            model=ARCHITECTURES[architecture](**sizes),
            vocab_sizes=(int(source), int(target)),
            decode=_decode(path, dict(config["decode"])),
            training=_training(dict(config["training"])),
            # Bundles of before there was a choice read texts as they are.
            normalise=CleaningConfig(normalise=list(config.get("normalise", []))).normalise,
            # Before one was chosen on validation data, there was the default.
            alignment=AttentionHead(**config.get("alignment", {})),
        )
    except (KeyError, TypeError, ValueError, OverflowError, UserError) as error:
        raise BundleError(f"{path} does not describe a model of this project: {error}") from error


def _decode(path: Path, stored: dict[str, Any]) -> DecodeConfig:
    """Search settings; where they ask for what is gone, a warning says so, and a beam searches."""
    gone = {name: value for name, value in stored.items() if f"decode.{name}" in REMOVED}
    kept = {name: value for name, value in stored.items() if name not in gone}
    if kept.get("strategy") == "mbr":
        gone["strategy"] = kept.pop("strategy")
    if gone:
        said = ", ".join(f"decode.{name}={value}" for name, value in gone.items())
        log.warning("%s asks for %s, which is gone: a plain beam searches instead", path, said)
    return DecodeConfig(**kept)


def _training(stored: dict[str, Any]) -> dict[str, Any]:
    """How a bundle was trained, its settings by the names of today."""
    settings = stored.get("config")
    return stored | {"config": migrated(settings)} if isinstance(settings, dict) else stored


def _read_json(path: Path) -> dict[str, Any]:
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BundleError(f"cannot read {path}: {error}. Copy the whole bundle again") from error
    if not isinstance(config, dict) or "format" not in config:
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
