"""Where a model is: named by a folder or the name of a shipped one, chosen before, or none of it.

`translate --use MODEL` remembers a choice in the user's settings, `~/.config/seq2seq/model`.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import NamedTuple

from seq2seq.bundle.config import read_config
from seq2seq.data.vocabularies import missing_files
from seq2seq.errors import BundleError, RunError, command_line
from seq2seq.files import replace_text, restored

PRETRAINED = Path(__file__).resolve().parents[1] / "pretrained"  # a folder for each shipped model
GENERAL = "general"  # the one that is taken where none is named
HUB_NAME = re.compile(r"(hf:)?([\w.-]+/[\w.-]+)(?:@([\w./-]+))?")  # hf:OWNER/NAME@REVISION
PARTS = ("config.json", "config.yaml", "bundle")  # one of them is in each bundle and run
LEARNT = 1.0  # BLEU below which a run has learnt nothing
FEW = 16  # validation pairs, of which no BLEU says anything

NO_MODEL = """no model found: none was named or chosen, SEQ2SEQ_MODEL is not set, and the model of
this package is not in {pretrained}. To get one:
  - train the demo model in a few minutes (in a clone of the project): make demo
  - or train your own: seq2seq train, or python scripts/train.py
  - and name it: translate --model FOLDER "hello world\""""


class Found(NamedTuple):
    """A model, and why it is that one."""

    folder: Path
    why: str


def find_model(named: str | None) -> Found:
    """The model to use.

    In this order: the one named, SEQ2SEQ_MODEL, the one chosen with `--use`, the shipped one.

    Raises:
        BundleError: there is none, or not the one named; says how to get one.
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
    """What `choose_model` remembers, if anything."""
    try:
        return _memory().read_text(encoding="utf-8").strip() or None
    except (OSError, UnicodeDecodeError):
        return None


def choose_model(name: str) -> Path:
    """Have `find_model` take this model where none is named; returns its folder.

    Raises:
        BundleError: it is none, was made by a `debug=` run, or has learnt nothing.
        RunError: the choice cannot be written.
    """
    folder = model_folder(name)
    bundle = bundle_folder(folder) if not is_exported(folder) else folder
    made = read_config(bundle / "config.json").training
    trainer, bleu = (made.get("config") or {}).get("trainer") or {}, made["scores"].get("BLEU")
    debugged = trainer.get("val_on_train") or (trainer.get("val_pairs") or FEW) < FEW
    if debugged or (bleu is not None and bleu < LEARNT):
        why = "was made by a run for debugging (debug=)" if debugged else "has learnt nothing"
        raise BundleError(
            f"{name} {why}, BLEU {bleu}: it can be named (--model {name}), but not chosen"
        )
    memory = _memory()
    try:
        memory.parent.mkdir(parents=True, exist_ok=True)
        # A shipped model may stand elsewhere after the next installation.
        replace_text(memory, f"{name if is_shipped(folder) else folder.resolve()}\n")
    except OSError as error:
        raise RunError(
            f"the choice cannot be kept in {memory}: {error}. Set SEQ2SEQ_MODEL={name} instead"
        ) from error
    return folder


# Folders


def shipped_model(name: str = GENERAL) -> Path | None:
    """The folder of a shipped model; None if there is none of this name."""
    folder = PRETRAINED / name
    named = Path(name).name == name  # and no path, which leads elsewhere
    return folder if named and (folder / "config.json").is_file() else None


def is_shipped(folder: Path) -> bool:
    """Whether a folder is that of a shipped model, beside which nothing is to be written."""
    return folder.resolve().parent == PRETRAINED


def hub_name(text: str) -> tuple[str, str | None] | None:
    """OWNER/NAME and the revision, if a text names a model of the Hugging Face hub.

    `hf:` in front tells it from a folder; else it is none where there is a folder OWNER.
    """
    found = HUB_NAME.fullmatch(text)
    if found is None or (not found[1] and Path(text).parent.exists()):
        return None
    return found[2], found[3]


def model_folder(name: str | Path) -> Path:
    """The folder that is called so; else that of the shipped model of this name, or a bundle made
    of the model of the Hugging Face hub.

    A folder of something else, say of data, does not hide the shipped one.

    Raises:
        BundleError: there is neither.
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
    """The bundle itself, given it, the run that holds it, or the name of a shipped one.

    Raises:
        BundleError: neither is there; says what is.
    """
    folder = model_folder(name)
    if (restored(folder / "bundle") / "config.json").is_file():
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
    if (folder / "tokenizer_config.json").is_file():
        raise BundleError(
            f"{folder} is a model of Hugging Face's Transformers library: make a bundle of it "
            f"(seq2seq import {folder} --output models/{folder.name}), and name that"
        )
    files = ("config.json", "model.safetensors")
    missing = [name for name in files if not (folder / name).is_file()] + missing_files(folder)
    if missing:
        raise BundleError(
            f"{folder} is no model bundle: {', '.join(missing)} missing. A bundle holds "
            f"{', '.join(files)} and tokenizer.json; training writes one to <run>/bundle"
        )
    return folder


def is_exported(folder: Path) -> bool:
    """Whether a folder holds what a bundle was converted to for CTranslate2."""
    return (folder / "model.bin").is_file()
