"""Find a model: by folder or by name, by an earlier choice, or the shipped one.

`translate --use MODEL` remembers a choice in the user's settings, `~/.config/seq2seq/model`.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import NamedTuple

from seq2seq.bundle.config import FILES
from seq2seq.data.vocabularies import missing_files
from seq2seq.errors import BundleError, RunError, command_line
from seq2seq.files import replace_text, restored

PRETRAINED = Path(__file__).resolve().parents[1] / "pretrained"  # a folder for each shipped model
GENERAL = "general"  # the default model
HUB_NAME = re.compile(r"(hf:)?([\w.-]+/[\w.-]+)(?:@([\w./-]+))?")  # hf:OWNER/NAME@REVISION
PARTS = ("config.json", "config.yaml", "bundle")  # each bundle and run has one of them

NO_MODEL = """no model found: none was named or chosen, SEQ2SEQ_MODEL is not set, and the model of
this package is not in {pretrained}. To get one:
  - train the demo model in a few minutes (in a clone of the project): make demo
  - or train your own: seq2seq train, or python scripts/train.py
  - and name it: translate --model FOLDER "hello world\""""


class Found(NamedTuple):
    """The folder of a model, and why this model was chosen."""

    folder: Path
    why: str


def find_model(named: str | None) -> Found:
    """Find the model to use.

    In this order: the one named, SEQ2SEQ_MODEL, the one chosen with `--use`, the shipped one.

    Raises:
        BundleError: there is none, or not the one named; the message says how to get one.
    """
    if named:
        return Found(model_folder(named), "named")
    for name, why, remedy in (
        (os.environ.get("SEQ2SEQ_MODEL"), "from SEQ2SEQ_MODEL", "Set or unset the variable"),
        (chosen_model(), "chosen with --use", f"To undo the choice: translate --use {GENERAL}"),
    ):
        try:
            if name:
                return Found(model_folder(name), why)
        except BundleError as error:
            raise BundleError(f"the model {name}, {why}: {error}. {remedy}") from error
    if (shipped := shipped_model()) is None:
        raise BundleError(NO_MODEL.format(pretrained=PRETRAINED))
    return Found(shipped, f"{GENERAL}, shipped with seq2seq")


# Choosing


def _memory() -> Path:
    folder = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(folder) / "seq2seq" / "model"


def chosen_model() -> str | None:
    """Return the model that `choose_model` stored; None if there is none."""
    try:
        return _memory().read_text(encoding="utf-8").strip() or None
    except (OSError, UnicodeDecodeError):
        return None


def choose_model(name: str) -> Path:
    """Make `find_model` use this model if none is named; return its folder.

    Raises:
        BundleError: it is no model.
        RunError: the choice cannot be stored.
    """
    folder = model_folder(name)
    if not is_exported(folder):
        bundle_folder(folder)  # raises if there is no bundle
    memory = _memory()
    try:
        memory.parent.mkdir(parents=True, exist_ok=True)
        # The next installation may move a shipped model, so its name is stored.
        replace_text(memory, f"{name if is_shipped(folder) else folder.resolve()}\n")
    except OSError as error:
        raise RunError(
            f"the choice cannot be kept in {memory}: {error}. Set SEQ2SEQ_MODEL={name} instead"
        ) from error
    return folder


# Folders


def shipped_model(name: str = GENERAL) -> Path | None:
    """Return the folder of a shipped model; None if none has this name."""
    folder = PRETRAINED / name
    named = Path(name).name == name  # a name, not a path
    return folder if named and (folder / "config.json").is_file() else None


def is_shipped(folder: Path) -> bool:
    """Tell whether a folder belongs to a shipped model. Callers write nothing beside it."""
    return folder.resolve().parent == PRETRAINED


def hub_name(text: str) -> tuple[str, str | None] | None:
    """Split the name of a hub model into OWNER/NAME and revision; None if it is no such name.

    Without `hf:` in front, a text is no name of the hub if a folder OWNER exists, or if OWNER is
    `runs`, where runs are by default.
    """
    found, owner = HUB_NAME.fullmatch(text), Path(text).parent
    if found is None or (not found[1] and (owner.exists() or owner == Path("runs"))):
        return None
    return found[2], found[3]


def model_folder(name: str | Path) -> Path:
    """Find a model by name: a folder, a shipped model, or a model of the Hugging Face hub.

    A model of the hub is converted into a bundle. A folder of the same name hides a shipped model
    only if it holds a bundle or a run, not if it holds, say, data.

    Raises:
        BundleError: there is no such model.
    """
    folder, shipped = Path(name), shipped_model(str(name))
    if shipped and not any((folder / part).exists() for part in PARTS):
        return shipped
    if restored(folder).is_dir():
        return folder
    if (named := hub_name(str(name))) is not None:
        from seq2seq.bundle.hub import hub_bundle  # loads torch

        return hub_bundle(*named)
    shipped_names = sorted(file.parent.name for file in PRETRAINED.glob("*/config.json"))
    raise BundleError(
        f"no model folder {name}: give the folder of a run (runs/...) or of a bundle, a model of "
        f"the Hugging Face hub (hf:OWNER/NAME), or a shipped model (in {PRETRAINED}: "
        f"{', '.join(shipped_names) or 'none'})"
    )


def bundle_folder(name: str | Path) -> Path:
    """Return a bundle's folder, given this folder, the run that holds it, or a model's name.

    Raises:
        BundleError: there is no bundle; the message says what is there instead.
    """
    folder = model_folder(name)
    if (restored(folder / "bundle") / "config.json").is_file():
        folder = folder / "bundle"
    elif (folder / "checkpoints").is_dir():
        raise BundleError(
            f"the run {folder} has no bundle yet: one is written at its first validation; "
            f"to continue training: {command_line('train', f'resume={folder}')}"
        )
    if is_exported(folder):
        raise BundleError(
            f"{folder} was exported from a bundle for ctranslate2: give the bundle, or use it with "
            "translate --engine ctranslate2"
        )
    if (folder / "tokenizer_config.json").is_file():
        raise BundleError(
            f"{folder} is a model of Hugging Face's Transformers library: make a bundle of it "
            f"(seq2seq import {folder} --output models/{folder.name}), and name that"
        )
    missing = [name for name in FILES if not (folder / name).is_file()] + missing_files(folder)
    if missing:
        raise BundleError(
            f"{folder} is not a model bundle: {', '.join(missing)} missing. A bundle holds "
            f"{', '.join(FILES)} and tokenizer.json; training writes one to <run>/bundle"
        )
    return folder


def is_exported(folder: Path) -> bool:
    """Tell whether a folder holds a model converted for CTranslate2."""
    return (folder / "model.bin").is_file()
