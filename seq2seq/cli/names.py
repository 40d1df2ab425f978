"""Names of settings and presets: list them, and explain an unknown one."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from seq2seq.config import ARCHITECTURES, Checked, ModelConfig
from seq2seq.config.checked import groups_of

WORDS = {  # what other programs call our settings, in lower case, without _ and -
    "model.d_model": "width dim hidden hiddensize embeddim",
    "model.d_ff": "hidden ffndim",
    "model.encoder_layers": "layers numlayers depth",
    "model.decoder_layers": "layers numlayers depth",
    "model.n_heads": "heads numheads attentionheads",
    "model.max_length": "maxlen seqlen",
    "data": "dataset corpus",
    "data.max_tokens": "bs batch batchsize tokensperbatch",
    "data.num_workers": "workers",
    "tokenizer.vocab_size": "vocab vocabsize",
    "optim.lr": "learningrate stepsize",
    "optim.weight_decay": "wd",
    "optim.warmup_steps": "warmup warmupratio",
    "optim.schedule": "scheduler lrscheduler",
    "trainer.max_steps": "steps maxupdates",
    "trainer.max_steps=20epochs": "epochs numepochs maxepochs",
    "trainer.devices": "gpus ngpus",
    "trainer.precision": "dtype fp16 bf16 amp",
    "trainer.accumulate": "gradientaccumulation gradaccum updatefreq",
    "trainer.gradient_clip": "clip clipnorm gradclip maxgradnorm",
    "trainer.patience": "earlystopping",
    "decode.beam": "beams beamsize numbeams",
    "seed": "randomseed",
    "run_dir": "outputdir outdir savedir",
    "resume": "continue",
    "init_from": "pretrained finetune",
    "bundle": "model pretrained checkpoint modelpath",
}


NEW_MEMBER = (
    "a member of a mixture begins with a preset: +data@data.members.NAME=files "
    "data.members.NAME.path=FOLDER"
)


def resources() -> Path:
    """Return the folder of `configs/` and `data/`: in an installed copy its own, else the clone."""
    package = Path(__file__).resolve().parents[1]
    installed = package / "resources"
    return installed if installed.is_dir() else package.parent


def defaults_of(config_name: str) -> dict[str, str | None]:
    """Return the default preset of each group of a command, in the order of its YAML file."""
    file = resources() / "configs" / f"{config_name}.yaml"
    defaults = yaml.safe_load(file.read_text(encoding="utf-8"))["defaults"]
    found = [pair for one in defaults if isinstance(one, dict) for pair in one.items()]
    return {group: preset for group, preset in found if not group.startswith("override ")}


def presets_of(config_name: str) -> dict[str, list[str]]:
    """Return the presets of a command, by group."""
    return {
        group: sorted(file.stem for file in (resources() / "configs" / group).glob("*.yaml"))
        for group in defaults_of(config_name)
    }


def settings_of(schema: type[Any], prefix: str = "") -> dict[str, dataclasses.Field[Any]]:
    """Return all settings and groups of a schema by dotted name; models have those of all kinds."""
    found, groups = {}, groups_of(schema)
    for field in dataclasses.fields(schema):
        found[f"{prefix}{field.name}"] = field
        if (part := groups.get(field.name)) is not None:
            for kind in ARCHITECTURES.values() if issubclass(part, ModelConfig) else [part]:
                found |= settings_of(kind, f"{prefix}{field.name}.")
    return found


def choices_of(setting: dataclasses.Field[Any]) -> tuple[str, ...]:
    """Return the values that a setting may have; empty if any value is allowed."""
    checks = setting.metadata.get("checks")
    return () if checks is None else checks.choices


def unknown(
    key: str, schema: type[Any], owner: type[Any] | None = None, groups: Iterable[str] = ()
) -> str:
    """Say that no setting of the command has this dotted name, and suggest others.

    `owner` is the class that lacks the name, such as that of a mixture's member; `groups` are
    those that have presets.
    """
    valid, (section, _, last) = settings_of(schema), key.rpartition(".")
    if section == "data.members":
        return f"{key}: {NEW_MEMBER}"
    if key in valid:
        return (
            f"{key} is not a setting of this kind of model: leave it out, choose another model=, "
            "or begin the preset with the lines 'defaults:' and '  - base'"
        )
    beside = {name.rpartition(".")[2] for name in valid if name.rpartition(".")[0] == section}
    if isinstance(owner, type) and issubclass(owner, Checked):
        beside |= {field.name for field in dataclasses.fields(owner)}  # type: ignore[arg-type]
    if not section:
        beside |= {*groups}
    word = last.lower().replace("_", "").replace("-", "")
    meant = (
        [ours for ours, words in WORDS.items()
         if word in words.split() and ours.partition("=")[0] in valid]
        or [name for name in valid if name.rpartition(".")[2] == last]
        or [f"{section}.{name}".lstrip(".")
            for name in difflib.get_close_matches(last, sorted(beside), 2)]
        or difflib.get_close_matches(key, valid, 1, cutoff=0.8)
    )  # fmt: skip
    if meant:
        return f"there is no setting {key!r}: did you mean {' or '.join(map(repr, meant))}?"
    topic = f" {section}" if section in valid else ""
    return f"there is no setting {key!r}: --help{topic} lists them"
