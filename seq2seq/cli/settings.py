"""Turn the command line and YAML files into checked dataclasses, with Hydra.

All code below the commands receives plain dataclasses. Only two other files import Hydra:
`explain.py`, which explains its errors, and `sweep.py`, which lets it start several runs.
"""

from __future__ import annotations

import inspect
import logging
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

import hydra
from hydra.core.config_store import ConfigStore
from omegaconf import MISSING, DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from seq2seq.cli.arguments import read_arguments
from seq2seq.cli.exits import run_command
from seq2seq.cli.explain import explain, values_of
from seq2seq.cli.help import help_text
from seq2seq.cli.names import presets_of, resources, unknown
from seq2seq.cli.resume import fine_tuned, restarted, resumed
from seq2seq.cli.sweep import Sweep
from seq2seq.config import (
    ARCHITECTURES,
    Checked,
    CorpusConfig,
    DataConfig,
    ModelConfig,
    TransformerConfig,
    unchecked,
)
from seq2seq.config.checked import groups_of
from seq2seq.errors import ConfigError

Settings = TypeVar("Settings", bound=Checked)

# Hydra only composes settings: runs make and name their own folders and logs.
COMPOSES_ONLY = {"run": {"dir": "."}, "sweep": {"dir": ".", "subdir": "."}, "output_subdir": None}


def hydra_command(
    config_name: str, schema: type[Settings], run: Callable[[Settings], object], about: str = ""
) -> None:
    """Run a command: compose `configs/<config_name>.yaml` with the command line, check, call `run`.

    `about` is the beginning of the command's help.
    """
    os.environ["HYDRA_FULL_ERROR"] = "1"  # Hydra must raise its errors, which `explain` rewords
    register(config_name, schema)

    def command() -> None:
        presets = presets_of(config_name)
        flags, arguments = read_arguments(sys.argv[1:], schema, config_name)

        def job(config: DictConfig, overrides: Sequence[str]) -> object:
            logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stdout)
            return run(_to_settings(config, overrides, schema))

        if flags.multirun and flags.help is None:
            configs = str(resources() / "configs")
            main = hydra.main(version_base="1.3", config_path=configs, config_name=config_name)
            try:
                given = [one[8:] for one in arguments if one.startswith("run_dir=")]
                folder = Path([f"runs/sweep-{datetime.now():%Y%m%d-%H%M%S}", *given][-1])
                Sweep(folder, tuple(arguments)).train(main, job)
            except (hydra.errors.HydraException, OmegaConfBaseException) as error:
                raise ConfigError(explain(error, schema, presets)) from error
            return
        config = compose(config_name, schema, arguments)
        if flags.cfg is not None:
            print(OmegaConf.to_yaml(config, resolve=flags.resolve), end="")
        elif flags.help is not None:
            purpose = about or inspect.cleandoc(schema.__doc__ or "")
            print(help_text(config_name, purpose, schema, values_of(config, schema), flags.help))
        else:
            job(config, arguments)

    run_command(command)


def register(config_name: str, schema: type[Settings]) -> None:
    """Register with Hydra the schema of the command, and those of all architectures.

    Presets in `configs/model` begin with the schema of their architecture.
    """
    OmegaConf.register_new_resolver("root", lambda path: str(resources() / path), replace=True)
    store = ConfigStore.instance()
    node = OmegaConf.structured(schema)
    if groups_of(schema).get("model") is not None:
        node.model = MISSING
    store.store(name=f"{config_name}_schema", node=node)
    store.store(name="composes_only", node=COMPOSES_ONLY, package="hydra")
    for name, part in ARCHITECTURES.items():
        store.store(group="model", name=f"_{name}", node=part)


def compose(config_name: str, schema: type[Any], arguments: Sequence[str]) -> DictConfig:
    """Compose the settings of one run, without checking them.

    Raises:
        ConfigError: Hydra cannot compose them.
    """
    configs = str(resources() / "configs")
    try:
        with hydra.initialize_config_dir(version_base="1.3", config_dir=configs):
            return hydra.compose(config_name, [*arguments])
    except Exception as error:  # Hydra raises ValueError and others too
        raise ConfigError(explain(error, schema, presets_of(config_name))) from error


def _to_settings(config: DictConfig, overrides: Sequence[str], schema: type[Settings]) -> Settings:
    """Return checked settings, of the command line and of the run or bundle that it starts from."""
    values = values_of(config, schema)
    given = [one for one in overrides if not one.startswith("hydra.")]
    keys = [one.lstrip("+").partition("=")[0] for one in given]
    if values.get("resume") is not None:
        return build(schema, resumed(config, keys, str(values["resume"])))
    if values.get("init_from") is not None:
        values = fine_tuned(config, keys, values, str(values["init_from"]))
    if values.get("run_dir") is not None and restarted(Path(values["run_dir"])):
        values["resume"] = values["run_dir"]
    return build(schema, values, given)


def build(schema: type[Settings], values: dict[str, Any], given: Sequence[str] = ()) -> Settings:
    """Make a settings object from nested dicts; `given` are the typed settings, as typed.

    Raises:
        ConfigError: some values are impossible; the message has the problems of all parts.
    """
    groups = groups_of(schema)
    if "model" in groups:
        groups["model"] = _kind_of_model(values["model"])
    if problems := [*_added(schema, values, groups)]:
        raise ConfigError(*problems)
    parts = values | {name: unchecked(part, values[name]) for name, part in groups.items()}
    made = unchecked(schema, parts)
    problems = [one for name in groups for one in parts[name].problems()]
    if problems := [*problems, *made.problems(), *made.idle(given)]:
        raise ConfigError(*problems)
    for part in parts.values():
        if isinstance(part, DataConfig):
            members: dict[str, Any] = part.members  # still plain dicts
            part.members = {key: CorpusConfig(**member) for key, member in members.items()}
    return schema(**parts)


def _added(
    schema: type[Any], values: Mapping[str, Any], groups: Mapping[str, type[Any]]
) -> Iterator[str]:
    """Yield a problem for each key that a plus has added although there is no such setting."""
    parts = [("", schema, values)]
    for name, part in groups.items():
        parts.append((f"{name}.", part, values[name]))
        for member, own in values[name].get("members", {}).items():
            parts.append((f"{name}.members.{member}.", CorpusConfig, own))
    for prefix, part, settings in parts:
        for key in settings.keys() - {field.name for field in fields(part)}:
            yield unknown(f"{prefix}{key}", schema, part)


def _kind_of_model(values: dict[str, Any]) -> type[ModelConfig]:
    """Return the class with exactly these settings, else the one that `architecture` names."""
    for kind in ARCHITECTURES.values():
        if {field.name for field in fields(kind)} == set(values):
            return kind
    return ARCHITECTURES.get(values.get("architecture", ""), TransformerConfig)
