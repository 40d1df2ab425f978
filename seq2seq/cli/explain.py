"""What is wrong with a command line of name=value, in words that name the nearest valid thing.

`check_arguments` looks before Hydra does, so that all mistakes come together; `explain` words what
Hydra and OmegaConf refuse later, by the types of their errors.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import NoneType
from typing import Any, get_args, get_origin, get_type_hints

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException, MissingConfigException, OverrideParseException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import (
    ConfigAttributeError,
    ConfigKeyError,
    InterpolationResolutionError,
    OmegaConfBaseException,
)
from yaml import MarkedYAMLError

from seq2seq.cli.names import OWN_NAMES, settings_of, unknown
from seq2seq.config import Checked, CorpusConfig
from seq2seq.errors import ConfigError, UserError, install, nearest

SEVERAL = ("-m", "--multirun")
SWITCHES = (*SEVERAL, "--resolve")  # of Hydra; those that are offered
WITH_VALUE = {  # likewise, and their values; any where there are none
    **dict.fromkeys(("-c", "--cfg"), ("job", "hydra", "all")),
    **dict.fromkeys(("-cd", "--config-dir"), ()),
}
HOW = (
    "settings are given as name=value, without spaces, for example model=base; put quotes around "
    "a value with special characters: 'name=\"value\"'"
)
EXTRAS = ("optuna", "submitit")  # optional packages that are plugins of Hydra
VALUES = {
    bool: "true or false", int: "a whole number", float: "a number", str: "text",
    list: "a list, such as [a,b]", dict: "names with values", NoneType: "null",
}  # fmt: skip


# Before Hydra


def take_flags(arguments: Sequence[str], schema: type[Any]) -> tuple[list[str], list[str]]:
    """Flags for Hydra, with their values, and the other arguments.

    Raises:
        ConfigError: a flag is not known, or its value is not.
    """
    flags, others, problems, rest = list[str](), list[str](), list[str](), list(arguments)
    while rest:
        argument = rest.pop(0)
        if not argument.startswith("-"):
            others.append(argument)
            continue
        flag, equals, value = argument.partition("=")
        if not equals and flag not in SWITCHES and rest and not re.search("^-|=", rest[0]):
            value = rest.pop(0)
        flags += [flag, value] if value else [flag]
        known = WITH_VALUE.get(flag, ())
        if flag not in WITH_VALUE and flag not in SWITCHES:
            problems.append(_with_dashes(flag, value or "VALUE", schema))
        elif known and value not in known:
            problems.append(f"{flag} {value}: give {' or '.join(known)}")
        elif flag in ("-cd", "--config-dir") and not Path(value).is_dir():
            problems.append(f"{flag} {value}: no such folder; name one of presets, as configs/ is")
    if problems:
        raise ConfigError(problems)
    return flags, others


def check_arguments(
    arguments: Sequence[str],
    schema: type[Any],
    presets: dict[str, list[str]],
    flags: Sequence[str] = (),
) -> None:
    """Refuse what can be seen to be wrong without composing.

    Args:
        arguments: of the command, without its name and flags.
        schema: its settings.
        presets: those that can be chosen, by group.
        flags: those of Hydra.

    Raises:
        ConfigError: with all that was found.
    """
    problems, parser, chosen = list[str](), OverridesParser.create(), dict[str, str]()
    for argument in arguments:
        try:
            [override] = parser.parse_overrides([argument])
        except HydraException as error:
            problems.append(explain(error, schema))
            continue
        key = override.key_or_group
        if override.is_sweep_override():
            if not {*SEVERAL} & {*flags}:
                in_list = "" if key in presets else f"; a list stands in brackets, {key}=[A,B]"
                each = ", or train with each, -m" if hasattr(schema, "run_dir") else ""
                problems.append(f"{argument} gives several values: choose one{each}{in_list}")
        elif key in presets and override.package is None:
            if not {"-cd", "--config-dir"} & {*flags}:
                problems += _wrong_preset(argument, presets)
            other = chosen.setdefault(key, argument)
            if argument != other:
                problems.append(f"{other} and {argument}: give one of them")
        if key not in presets:
            problems += _wrong_setting(override, schema, presets)
    if problems:
        raise ConfigError(problems)


def _with_dashes(flag: str, value: str, schema: type[Any]) -> str:
    """What to say about `--name value` or `--name=value`."""
    name = flag.lstrip("-").replace("-", "_")
    if name in settings_of(schema):
        return f"{flag} is given without dashes: {name}={value}"
    return f"{flag}: settings are given as name=value, without dashes; {unknown(name, schema)}"


def _wrong_preset(argument: str, presets: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """What is wrong with the choice of a preset."""
    group, _, value = argument.lstrip("~").partition("=")
    if argument.startswith("~"):
        yield f"{argument}: there is always one {group}; choose another"
    elif group == "data" and "/" in value:
        yield f"{argument} is a path, not a preset: for text of yours, data=files data.path={value}"
    elif value not in presets[group] and not value.startswith("{"):
        yield f"{argument} is not known: {nearest(value, presets[group])}"


def _wrong_setting(
    override: Override, schema: type[Any], presets: dict[str, list[str]]
) -> Iterator[str]:
    """What is wrong with one argument that is no choice of a preset."""
    key, argument, names = override.key_or_group, override.input_line, settings_of(schema)
    first = re.split(r"[./@]", key)[0]
    if first == "hydra":
        return
    if not key:
        yield f"cannot read {argument!r}: {HOW}"
        return
    part, _, name = key.removeprefix("data.").partition(".")
    own = key.startswith("data.") and part in OWN_NAMES and name
    # `build` looks at what is added to a group.
    known = key in names or own or (first in names and (override.package or override.is_add()))
    if override.is_delete():
        yield f"{argument}: a setting cannot be taken away, only given another value"
    elif key == "model" and "bundle" in names:
        value = str(argument).partition("=")[2]
        yield f"{argument}: model= is an architecture; a trained model is bundle={value}"
    elif not known:
        yield unknown(key, schema, groups=presets)


# After Hydra


def values_of(config: DictConfig, schema: type[Any]) -> dict[str, Any]:
    """Composed settings as nested dicts, checked by type only."""
    try:
        values: Any = OmegaConf.to_container(config, resolve=True)
    except OmegaConfBaseException as error:
        raise ConfigError([explain(error, schema)]) from error
    return {str(key): value for key, value in values.items()}


def explain(error: Exception, schema: type[Any]) -> str:
    """The errors of Hydra and OmegaConf in words."""
    if isinstance(error, UserError):
        return str(error)
    if isinstance(error, MissingConfigException) and error.options:
        group, _, name = (error.missing_cfg_file or "").rpartition("/")
        extra = name.partition("_")[0]
        if group in ("hydra/launcher", "hydra/sweeper") and extra in EXTRAS:
            return f"{group}={name} needs a package: {install(extra)}"
        options = [option for option in error.options if not option.startswith("_")]
        return f"{group}={name} is not known: {nearest(name, options)}"
    if isinstance(error, OverrideParseException):
        return f"cannot read {error.override!r}: {HOW}"
    if isinstance(error, MarkedYAMLError) and (mark := error.problem_mark) is not None:
        return f"{mark.name}, line {mark.line + 1}, is no YAML: {error.problem}"
    caused = error.__cause__ or error.__context__
    cause = error if isinstance(error, OmegaConfBaseException) else caused
    # Hydra says only in its text which file it was reading.
    found = re.match(r"In '([^']+)':", str(error))
    place = f"{found[1]}.yaml: " if found else ""
    if not isinstance(cause, OmegaConfBaseException) or not cause.full_key:
        return place + (str(cause or error) or type(error).__name__).splitlines()[0]
    key = cause.full_key
    if CorpusConfig.__name__ in str(cause) and cause.object_type is None:
        return unknown("data.members", schema)  # one that no preset has made
    if isinstance(cause, ConfigAttributeError | ConfigKeyError):
        return place + unknown(key, schema, cause.object_type)
    if isinstance(cause, InterpolationResolutionError):
        return f"{place}{key}: {str(cause).splitlines()[0]}"
    return place + _wrong_value(cause)


def _wrong_value(error: OmegaConfBaseException) -> str:
    """Which values a setting takes that was given another one."""
    owner = error.object_type
    settings = isinstance(owner, type) and issubclass(owner, Checked)
    hints = get_type_hints(owner) if settings else {}
    hint = hints.get(error.key, error.ref_type)
    if not settings and error.key is not None and get_args(hint):
        hint = get_args(hint)[-1]  # of an item of a list, or of names with values
    kinds = get_args(hint) if NoneType in get_args(hint) else (hint,)
    wanted = [VALUES[kind] for one in kinds if (kind := get_origin(one) or one) in VALUES]
    if not wanted:
        return f"{error.full_key}: {str(error).splitlines()[0]}"
    value = "" if error.key is None else f"={'null' if error.value is None else error.value}"
    return f"{error.full_key}{value}: give {', or '.join(wanted)}"
