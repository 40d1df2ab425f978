"""Names of settings and presets: which there are, and what to say about one that is none."""

from __future__ import annotations

import dataclasses
import difflib
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from seq2seq.config import ARCHITECTURES, CorpusConfig, ModelConfig
from seq2seq.config.checked import groups_of
from seq2seq.config.renames import refusal
from seq2seq.errors import nearest

OWN_NAMES = {  # settings that take names of the user's choice, and how one is added
    "where": "+data.where.COLUMN=[VALUE]",
    "variants": "+data.variants.NAME=SHARE",
    "members": "+data@data.members.NAME=files data.members.NAME.path=FOLDER",
    "weights": "+data.weights.NAME=NUMBER",
    "final_weights": "+data.final_weights.NAME=NUMBER",
}

WORDS = {  # what other programs call our settings, in small letters, without _ and -
    "model.d_model": "width dim dmodel hidden hiddensize embeddim embeddingsize",
    "model.d_ff": "hidden ffndim",
    "model.encoder_layers": "layers numlayers nlayers depth",
    "model.decoder_layers": "layers numlayers nlayers depth",
    "model.n_heads": "heads numheads attentionheads",
    "model.max_length": "maxlen seqlen",
    "data": "dataset corpus",
    "data.path": "dataset corpus",
    "data.max_tokens": "bs batch batchsize tokensperbatch",
    "data.max_sentences": "bs batch batchsize",
    "data.num_workers": "workers",
    "data.processes": "workers",
    "tokenizer.vocab_size": "vocab vocabsize",
    "optim.lr": "learningrate stepsize",
    "optim.weight_decay": "wd",
    "optim.warmup_steps": "warmup warmupratio",
    "optim.schedule": "scheduler lrscheduler",
    "optim.label_smoothing": "smoothing",
    "optim.ema": "emadecay",
    "optim.beta1": "adambeta1",
    "optim.beta2": "adambeta2",
    "trainer.max_steps": "steps maxupdates",
    "trainer.max_steps=20epochs": "epochs numepochs maxepochs",
    "trainer.devices": "gpus ngpus",
    "trainer.accelerator": "device",
    "trainer.precision": "dtype",
    "trainer.precision=16-mixed": "fp16",
    "trainer.precision=bf16-mixed": "bf16",
    "trainer.precision=auto": "amp",
    "trainer.accumulate": "gradientaccumulation gradaccum updatefreq",
    "trainer.gradient_clip": "clip clipnorm gradclip maxgradnorm",
    "trainer.patience": "earlystopping",
    "trainer.val_every_n_steps": "evalevery evalsteps",
    "trainer.log_every_n_steps": "loggingsteps",
    "checkpoint.every_n_steps": "saveevery savesteps",
    "logger=wandb": "wandb",
    "logger=tensorboard": "tensorboard",
    "decode.beam": "beams beamsize numbeams",
    "decode.length_penalty": "lengthpenalty lenpen",
    "decode.top_k": "topk",
    "decode.top_p": "topp",
    "seed": "randomseed",
    "run_dir": "outputdir outdir savedir",
    "output": "outputdir outdir savedir",
    "resume": "continue",
    "init_from": "pretrained finetune",
    "bundle": "pretrained checkpoint modelpath",
    "precision": "dtype",
}


def resources() -> Path:
    """The folder of `configs/` and `data/`: in an installed copy its own, else the clone."""
    package = Path(__file__).resolve().parents[1]
    installed = package / "resources"
    return installed if installed.is_dir() else package.parent


def defaults_of(config_name: str) -> dict[str, str | None]:
    """The preset of each group that a command takes by itself, in the order of its YAML file."""
    file = resources() / "configs" / f"{config_name}.yaml"
    defaults = yaml.safe_load(file.read_text(encoding="utf-8"))["defaults"]
    found = [pair for one in defaults if isinstance(one, dict) for pair in one.items()]
    return {group: preset for group, preset in found if not group.startswith("override ")}


def presets_of(config_name: str) -> dict[str, list[str]]:
    """The presets that a command lets one choose, by group."""
    return {
        group: sorted(file.stem for file in (resources() / "configs" / group).glob("*.yaml"))
        for group in defaults_of(config_name)
    }


def settings_of(schema: type[Any], prefix: str = "") -> dict[str, dataclasses.Field[Any]]:
    """All settings and groups of a schema by dotted name; of models, those of every kind."""
    found, groups = {}, groups_of(schema)
    for field in dataclasses.fields(schema):
        found[f"{prefix}{field.name}"] = field
        if (part := groups.get(field.name)) is not None:
            for kind in ARCHITECTURES.values() if issubclass(part, ModelConfig) else [part]:
                found |= settings_of(kind, f"{prefix}{field.name}.")
    return found


def choices_of(setting: dataclasses.Field[Any]) -> tuple[str, ...]:
    """The words that a setting may have; none = they are not counted."""
    checks = setting.metadata.get("checks")
    return () if checks is None else checks.choices


def synonyms(key: str) -> tuple[str, ...]:
    """Our names for what a key such as `optim.learning_rate` or `batch-size` means; may be none."""
    word = key.rpartition(".")[2].lower().replace("_", "").replace("-", "")
    return tuple(ours for ours, words in WORDS.items() if word in words.split())


def unknown(
    key: str, schema: type[Any], owner: type[Any] | None = None, groups: Iterable[str] = ()
) -> str:
    """What to say about a name that no setting has.

    Args:
        key: dotted.
        schema: the settings of the command.
        owner: the part of them, as composed, that was asked for the name.
        groups: names that presets are chosen by.
    """
    if (renamed := refusal(key)) is not None:
        return renamed
    valid, (section, _, last) = settings_of(schema), key.rpartition(".")
    if owner is ModelConfig:
        presets = " or ".join(f"_{name}" for name in ARCHITECTURES)
        return (
            "this preset of model= does not say what kind of model it is: begin it with the "
            f"lines 'defaults:' and '  - base' (another preset, or {presets})"
        )
    if owner is CorpusConfig:
        return f"there is no setting {last!r} of a corpus: {nearest(last, settings_of(owner))}"
    named = re.match(rf"(data\.(?:members\.[^.]+\.)?)({'|'.join(OWN_NAMES)})(?![^.])", key)
    if named and "data.members" in valid:
        example = OWN_NAMES[named[2]].replace("data.", named[1], 1)
        return f"{named[0]} takes names of your choice; add one with a plus: {example}"
    if key in valid:
        return f"{key} is no setting of this kind of model: leave it out, or choose another model="
    beside = dict.fromkeys(
        name.rpartition(".")[2] for name in (*valid, *groups) if name.rpartition(".")[0] == section
    )
    meant = (
        [one for one in synonyms(key) if one.partition("=")[0] in valid]
        or [name for name in valid if name.rpartition(".")[2] == last]
        or [f"{section}.{name}".lstrip(".") for name in difflib.get_close_matches(last, beside, 2)]
        or ([] if beside else difflib.get_close_matches(key, valid, 1))
    )
    if meant:
        return f"there is no setting {key!r}: did you mean {' or '.join(map(repr, meant))}?"
    help_of = f"--help {section}" if beside and section else "--help"
    return f"there is no setting {key!r}: {help_of} lists them"
