"""From the command line and YAML files to checked dataclasses, by Hydra.

Everything below the entry points receives plain dataclasses. Of Hydra know `explain.py`, which
words its errors, and `sweep.py`, which it calls for each of several runs.
"""

from __future__ import annotations

import inspect
import logging
import os
import re
import sys
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import hydra
from hydra.core.config_store import ConfigStore
from hydra.core.hydra_config import HydraConfig
from hydra.errors import ConfigCompositionException
from omegaconf import MISSING, DictConfig, OmegaConf

from seq2seq.cli.exits import run_command
from seq2seq.cli.explain import SEVERAL, check_arguments, explain, take_flags, values_of
from seq2seq.cli.help import help_text, take_help
from seq2seq.cli.names import choices_of, defaults_of, presets_of, resources, settings_of, unknown
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
from seq2seq.cores import set_up_libraries
from seq2seq.errors import SCRIPT_NAMES, ConfigError

Settings = TypeVar("Settings", bound=Checked)

TEXT = ("str | None", "str", "Any", "list[str]")  # annotations of settings that may be paths
# Hydra composes settings here: runs make and name their own folders and logs.
COMPOSES_ONLY = {
    "run": {"dir": "."},
    "sweep": {"dir": ".", "subdir": "."},
    "output_subdir": None,
}
COMMANDS = {script: command for command, script in SCRIPT_NAMES.items()}  # YAML files likewise


def hydra_command(
    config_name: str,
    schema: type[Settings],
    run: Callable[[Settings], object],
    about: str = "",
) -> None:
    """Run a command: compose `configs/<config_name>.yaml` with the command line, check, call.

    Args:
        config_name: name of the main YAML file, without suffix.
        schema: the dataclass that it fills.
        run: what to call with the settings.
        about: the help of the command begins with it.
    """
    set_up_libraries()
    os.environ["HYDRA_FULL_ERROR"] = "1"  # Hydra shall raise, not print: we word its errors
    register(config_name, schema)

    def command() -> None:
        given, presets = sys.argv[1:], presets_of(config_name)
        topic = take_help(given, schema, presets)
        flags, arguments = take_flags(given, schema)
        if topic is not None:  # help is for one run
            flags = [flag for flag in flags if flag not in SEVERAL]
        several = {*SEVERAL} & {*flags}
        if several and not hasattr(schema, "run_dir"):
            once = f"{several.pop()} trains several runs: give this command once for each"
            raise ConfigError([once])
        # Hydra cannot read what its own files say of a group of which nothing is chosen.
        empty = [f"{name}=null" for name, one in defaults_of(config_name).items() if one is None]
        arguments = [argument for argument in arguments if argument not in empty]
        if not several:  # else a comma parts several values
            arguments = [as_hydra_reads(argument, schema, presets) for argument in arguments]
        check_arguments(arguments, schema, presets, flags)
        sys.argv[1:] = [*flags, *arguments]  # flags first, or Hydra reads no setting behind them

        def job(config: DictConfig, overrides: list[str]) -> object:
            logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stdout)
            return run(_to_settings(config, overrides, schema))

        if several:
            Sweep.asked(given).train(partial(_compose, config_name, schema), job)
        else:
            composed: list[tuple[DictConfig, list[str]]] = []  # none if Hydra prints it (--cfg)
            _compose(config_name, schema, lambda *found: composed.append(found))
            for config, overrides in composed:
                if topic is None:
                    job(config, overrides)
                    continue
                purpose = about or inspect.cleandoc(schema.__doc__ or "")
                name = COMMANDS.get(config_name, config_name)
                values, folder = values_of(config, schema), resources() / "configs"
                print(help_text(purpose, name, schema, values, presets, folder, topic), flush=True)

    run_command(command)


def _compose(
    config_name: str, schema: type[Any], act: Callable[[DictConfig, list[str]], object]
) -> None:
    """Let Hydra call `act` with the settings that `sys.argv` asks for, and what it overrides.

    Raises:
        ConfigError: Hydra cannot compose them.
    """
    acts = False

    @hydra.main(
        version_base="1.3", config_path=str(resources() / "configs"), config_name=config_name
    )
    def composed(config: DictConfig) -> object:
        nonlocal acts
        acts = True
        overrides: Any = OmegaConf.to_container(HydraConfig.get().overrides.task)  # unresolved
        return act(config, overrides)

    try:
        composed()
    except Exception as error:  # Hydra raises ValueError and others too while it composes
        if acts and not isinstance(error, ConfigCompositionException):
            raise
        raise ConfigError([explain(error, schema)]) from error


def as_hydra_reads(argument: str, schema: type[Any], presets: Container[str]) -> str:
    """An argument in Hydra's grammar, for people who do not know it.

    Text is quoted where Hydra would refuse it or take it apart, such as a path with `=`, `,`, `(`
    or `é`; a plus is left out where there is nothing to add.
    """
    key, _, value = argument.partition("=")
    name, settings = key.lstrip("+"), settings_of(schema)
    if (name in settings or name in presets) and not value.startswith("{"):
        argument, key = argument.lstrip("+"), name
    field = settings.get(key)
    text = field is not None and field.type in TEXT and not choices_of(field)
    plain = re.fullmatch(r"[\w/.+@?|%*: -]*", value, re.ASCII)
    if not text or plain or value[0] in "'\"[{" or "${" in value:
        return argument
    escaped = value.replace("'", "\\'")
    return f"{key}='{escaped}'"


def register(config_name: str, schema: type[Settings]) -> None:
    """Tell Hydra the schema; presets in `configs/model` begin with that of their architecture."""
    OmegaConf.register_new_resolver("root", lambda path: str(resources() / path), replace=True)
    store = ConfigStore.instance()
    node = OmegaConf.structured(schema)
    if groups_of(schema).get("model") is not None:
        node.model = MISSING
    store.store(name=f"{config_name}_schema", node=node)
    store.store(name="composes_only", node=COMPOSES_ONLY, package="hydra")
    for name, part in ARCHITECTURES.items():
        store.store(group="model", name=f"_{name}", node=part)


def _to_settings(config: DictConfig, overrides: Sequence[str], schema: type[Settings]) -> Settings:
    """Checked settings of a command line, or of the run or the bundle that it starts from."""
    values = values_of(config, schema)
    keys = [one.lstrip("+").split("=", 1)[0] for one in overrides]
    if values.get("resume") is not None:
        return build(schema, resumed(config, keys, str(values["resume"])))
    if values.get("init_from") is not None:
        values = fine_tuned(config, keys, values, str(values["init_from"]))
    if values.get("run_dir") is not None and restarted(Path(values["run_dir"])):
        values["resume"] = values["run_dir"]
    return build(schema, values, overrides)


def build(
    schema: type[Settings], values: dict[str, Any], given: Sequence[str] = ()
) -> Settings:
    """Make a settings object from nested dicts, reporting the problems of all parts together.

    Args:
        schema: its class.
        values: the settings.
        given: those that the command line names, as typed.

    Raises:
        ConfigError: some values are impossible.
    """
    problems: list[str] = []
    parts = dict(values)
    for name, part in groups_of(schema).items():
        if name == "model":
            part = _kind_of_model(parts[name])
        problems += _added(schema, name, part, parts[name])
        for member, own in parts[name].get("members", {}).items():
            problems += _added(schema, f"{name}.members.{member}", CorpusConfig, own)
        parts[name] = unchecked(part, parts[name])
        problems += parts[name].problems()
    made = unchecked(schema, parts)
    problems += [*made.problems(), *made.idle(given)]
    if problems:
        raise ConfigError(problems)
    for part in parts.values():
        if isinstance(part, DataConfig):
            members: dict[str, Any] = part.members  # still plain dicts
            part.members = {key: CorpusConfig(**member) for key, member in members.items()}
    return schema(**parts)


def _added(schema: type[Any], name: str, part: type[Any], values: dict[str, Any]) -> Iterator[str]:
    """What a plus has added to a section that has no such setting."""
    valid = [field.name for field in fields(part)]
    for key in values:
        if key not in valid:
            yield unknown(f"{name}.{key}", schema, part)


def _kind_of_model(values: dict[str, Any]) -> type[ModelConfig]:
    """The one whose settings these are, whatever `architecture` says; else the one it names."""
    for kind in ARCHITECTURES.values():
        if {field.name for field in fields(kind)} == set(values):
            return kind
    return ARCHITECTURES.get(values.get("architecture", ""), TransformerConfig)
