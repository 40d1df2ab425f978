"""Settings of a command that resumes a run (`resume`) or starts from its model (`init_from`)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from seq2seq.cli.explain import explain, values_of
from seq2seq.config import ARCHITECTURES, FIXED, RESUMABLE, TrainConfig, may_change, migrated
from seq2seq.config.renames import LAST_VERSION, removed
from seq2seq.errors import ConfigError, RunError, nearest

# Settings of the tokenizer that matter only for a vocabulary that is still to be learned.
LEARNED = ("kind", "vocab_size", "joint", "symbols", "sample")


def resumed(config: DictConfig, keys: Sequence[str], folder: str) -> dict[str, Any]:
    """Return the settings of the run in `folder`, with allowed changes from the command line.

    `config` is composed as for a new run; `keys` are the settings that the command line names.

    Raises:
        RunError: there is no run, its settings cannot be read, or a setting may not change.
    """
    file = Path(folder) / "config.yaml"
    if not file.is_file():
        raise RunError(
            f"resume={folder}: no run is there ({file} is missing). Give the folder of a run, "
            "such as runs/starter-base-20260101-120000"
        )
    try:
        written: Any = OmegaConf.to_container(OmegaConf.load(file))
        known = migrated(written)
        if gone := removed(known):
            raise RunError(
                f"resume={folder}: the run uses {', '.join(gone)}, which is gone. The last version "
                f"that can resume the run is {LAST_VERSION}; to start a new run from its weights: "
                f"init_from={folder}"
            )
        stored: Any = OmegaConf.create(known)
        # Runs from before there was a choice do not name their architecture.
        architecture = OmegaConf.select(stored, "model.architecture", default="transformer")
        if architecture not in ARCHITECTURES:
            valid = nearest(str(architecture), ARCHITECTURES)
            raise ValueError(f"model.architecture={architecture} is not known: {valid}")
        typed = OmegaConf.structured(TrainConfig(model=ARCHITECTURES[architecture]()))
        stored = OmegaConf.merge(typed, stored)
    except (OmegaConfBaseException, YAMLError, OSError, TypeError, ValueError) as error:
        text = explain(error, TrainConfig)
        raise RunError(f"resume={folder}: {file} cannot be read: {text}") from error
    for key in keys:
        if key == "resume":
            continue
        if not may_change(key):
            raise RunError(
                f"resume={folder} continues that run as it was, so {key}= cannot be given (only "
                f"{', '.join(RESUMABLE)} can, each as NAME=VALUE, and of these not "
                f"{', '.join(FIXED)}). Leave it out, or start a new run without resume="
            )
        if key == "data.path" and stored.data.path is not None:
            for member in stored.data.members.values():
                if member.path == stored.data.path:  # those in the shared folder move with it
                    member.path = config.data.path
        OmegaConf.update(stored, key, OmegaConf.select(config, key))
    stored.resume = folder
    return values_of(stored, TrainConfig)


def restarted(run_dir: Path) -> bool:
    """Tell whether torchrun or SLURM has started this command line again, and its run exists."""
    names = ("TORCHELASTIC_RESTART_COUNT", "SLURM_RESTART_COUNT")
    again = any(os.environ.get(name, "0") != "0" for name in names)
    return again and (run_dir / "config.yaml").is_file()


def fine_tuned(
    config: DictConfig, keys: Sequence[str], values: dict[str, Any], folder: str
) -> dict[str, Any]:
    """Return the settings with the model of a bundle, unless the command line chooses a model.

    Raises:
        BundleError: there is no bundle.
        ConfigError: settings are given for a vocabulary that would not be used.
    """
    from seq2seq.bundle.config import read_config  # loads vocabularies, which others do not need
    from seq2seq.bundle.find import bundle_folder

    learned = [key for key in keys if key in ("tokenizer", *(f"tokenizer.{k}" for k in LEARNED))]
    if learned:
        used = f"does nothing with init_from={folder}, whose own vocabulary is used: leave it out"
        raise ConfigError(*(f"{key} {used}" for key in learned))
    model = read_config(bundle_folder(folder) / "config.json").model
    if "model" in keys:
        return values
    own = {key.removeprefix("model."): OmegaConf.select(config, key)
           for key in keys if key.startswith("model.")}  # fmt: skip
    return values | {"model": asdict(model) | own}
