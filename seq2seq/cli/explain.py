"""What is wrong with a command line of name=value, in words that name the nearest valid thing.

`check_arguments` looks before Hydra does, so that all mistakes come together; `explain` words what
Hydra and OmegaConf refuse later, by the types of their errors.
"""

from __future__ import annotations

import dataclasses
import difflib
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, get_args, get_origin, get_type_hints

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException, MissingConfigException, OverrideParseException
from omegaconf.errors import (
    ConfigAttributeError,
    ConfigKeyError,
    InterpolationResolutionError,
    OmegaConfBaseException,
)
from yaml import MarkedYAMLError

from seq2seq.config import ARCHITECTURES, Checked, CorpusConfig, ModelConfig
from seq2seq.config.renames import refusal
from seq2seq.config.synonyms import synonyms
from seq2seq.errors import ConfigError, UserError, nearest

FLAGS = {  # of Hydra, those that are offered; and whether a value follows
    **dict.fromkeys(("-m", "--multirun", "--resolve", "-sc", "--shell-completion"), False),
    **dict.fromkeys(("-c", "--cfg", "-p", "--package", "-cd", "--config-dir"), True),
}
EXTRAS = ("optuna", "submitit")  # optional packages that are plugins of Hydra
OWN_NAMES = {  # settings that take names of the user's choice, and how one is added
    "where": "+data.where.COLUMN=[VALUE]",
    "variants": "+data.variants.NAME=SHARE",
    "members": "+data@data.members.NAME=files data.members.NAME.path=FOLDER",
    "weights": "+data.weights.NAME=NUMBER",
    "final_weights": "+data.final_weights.NAME=NUMBER",
}
VALUES = {
    bool: "true or false", int: "a whole number", float: "a number", str: "text",
    list: "a list, such as [a,b]", dict: "names with values",
}  # fmt: skip


# Names


def sections(schema: type[Any]) -> dict[str, type[Any]]:
    """The fields of a schema that are settings objects themselves."""
    factories: dict[str, Any] = {f.name: f.default_factory for f in dataclasses.fields(schema)}
    return {name: part for name, part in factories.items() if _is_settings(part)}


def _is_settings(part: Any) -> bool:
    return isinstance(part, type) and issubclass(part, Checked)


def keys_of(schema: type[Any]) -> tuple[str, ...]:
    """All dotted setting names of a schema."""
    keys = []
    for field in dataclasses.fields(schema):
        keys.append(field.name)
        part = sections(schema).get(field.name)
        if part is not None:
            kinds = ARCHITECTURES.values() if issubclass(part, ModelConfig) else [part]
            names = dict.fromkeys(key for kind in kinds for key in keys_of(kind))
            keys += [f"{field.name}.{key}" for key in names]
    return tuple(keys)


# Before Hydra


def check_arguments(
    arguments: Sequence[str], schema: type[Any], presets: dict[str, list[str]]
) -> None:
    """Refuse what can be seen to be wrong without composing.

    Args:
        arguments: of the command, without its name.
        schema: its settings.
        presets: those that can be chosen, by group.

    Raises:
        ConfigError: with all that was found.
    """
    overrides, problems = [], []
    rest = list(arguments)
    while rest:
        argument = rest.pop(0)
        if not argument.startswith("-"):
            overrides.append(argument)
            continue
        option, equals, value = argument.partition("=")
        if not equals and FLAGS.get(option, True) and rest and not re.search("^-|=", rest[0]):
            value = rest.pop(0)
        if option not in FLAGS:
            problems.append(_with_dashes(option, value or "VALUE", schema))
    if {"-sc", "--shell-completion"} & set(arguments):
        return
    several = bool({"-m", "--multirun"} & set(arguments))
    parser, given = OverridesParser.create(), dict[str, str]()
    for argument in overrides:
        try:
            [override] = parser.parse_overrides([argument])
        except HydraException as error:
            problems.append(explain(error, schema))
            continue
        problems += _problems(override, schema, presets, several=several)
        group = override.key_or_group
        if group not in presets or override.package is not None:
            continue
        if argument != given.setdefault(group, argument):
            problems.append(f"{given[group]} and {argument}: give one of them")
    if problems:
        raise ConfigError(problems)


def _with_dashes(option: str, value: str, schema: type[Any]) -> str:
    """What to say about `--name value` or `--name=value`."""
    name = option.lstrip("-").replace("-", "_")
    if name in keys_of(schema):
        return f"{option} is given without dashes: {name}={value}"
    return f"{option}: settings are given as name=value, without dashes; {unknown(name, schema)}"


def _problems(
    override: Override, schema: type[Any], presets: dict[str, list[str]], *, several: bool
) -> Iterator[str]:
    """What is wrong with one argument."""
    key, argument = override.key_or_group, str(override.input_line)
    own = {f.name for f in dataclasses.fields(schema)} | presets.keys()
    first = re.split(r"[./@]", key)[0]
    known = first in own and (override.package is not None or _may_exist(key, schema, presets))
    added = first in own and override.is_add()  # below a group; `build` looks at it
    if first == "hydra":
        return
    if override.is_delete():
        yield f"{argument}: a setting cannot be taken away, only given another value"
    elif key == "model" and "bundle" in own:
        value = argument.partition("=")[2]
        yield f"{argument}: model= is an architecture; a trained model is bundle={value}"
    elif not known and not added:
        yield unknown(key, schema, groups=presets)
    elif override.is_sweep_override():
        if not several:
            as_list = "" if key in presets else f"; a list stands in brackets, {key}=[VALUE,VALUE]"
            yield f"{argument} gives several values: choose one, or train with each, -m{as_list}"
    elif key in presets and override.package is None:
        if not isinstance(override.value(), str | dict):
            chosen = argument.partition("=")[2]
            yield f"{key}={chosen} is not known: {nearest(chosen, presets[key])}"
        elif override.is_add():
            yield f"{argument}: leave the + out, since there is always one {key}"
    elif (
        override.is_add()
        and override.package is None
        and key in keys_of(schema)
        and first != "model"  # of which another kind may have the setting
        and not isinstance(override.value(), dict)
    ):
        yield f"{argument}: leave the + out, which adds what is not there"


def _may_exist(key: str, schema: type[Any], presets: Iterable[str]) -> bool:
    """Whether it is the name of a setting, or of something below one that takes names."""
    part, _, rest = key.removeprefix("data.").partition(".")
    free = key.startswith("data.") and part in OWN_NAMES and rest != ""
    return free or key in keys_of(schema) or key in presets


# After Hydra


def explain(error: Exception, schema: type[Any]) -> str:
    """The errors of Hydra and OmegaConf in words."""
    if isinstance(error, UserError):
        return str(error)
    if isinstance(error, MissingConfigException) and error.options:
        group, _, name = (error.missing_cfg_file or "").rpartition("/")
        extra = name.partition("_")[0]
        if group in ("hydra/launcher", "hydra/sweeper") and extra in EXTRAS:
            return f"{group}={name} needs a package: pip install 'seq2seq[{extra}]'"
        options = [option for option in error.options if not option.startswith("_")]
        return f"{group}={name} is not known: {nearest(name, options)}"
    if isinstance(error, OverrideParseException):
        return (
            f"cannot read {error.override!r}: settings are given as name=value, for example "
            "model=base; put quotes around a value with special characters: 'name=\"value\"'"
        )
    if isinstance(error, MarkedYAMLError) and (mark := error.problem_mark) is not None:
        return f"{mark.name}, line {mark.line + 1}, is no YAML: {error.problem}"
    cause = error if isinstance(error, OmegaConfBaseException) else _cause(error)
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


def _cause(error: Exception) -> BaseException | None:
    return error.__cause__ or error.__context__


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
    valid, (section, _, last) = keys_of(schema), key.rpartition(".")
    if owner is ModelConfig:
        presets = " or ".join(f"_{name}" for name in ARCHITECTURES)
        return (
            "this preset of model= does not say what kind of model it is: begin it with the "
            f"lines 'defaults:' and '  - base' (another preset, or {presets})"
        )
    if owner is CorpusConfig:
        return f"there is no setting {last!r} of a corpus: {nearest(last, keys_of(CorpusConfig))}"
    named = re.match(rf"data\.(?:members\.[^.]+\.)?({'|'.join(OWN_NAMES)})(?![^.])", key)
    if named and "data.members" in valid:
        example = OWN_NAMES[named[1]].replace("data.", named[0].removesuffix(named[1]), 1)
        return f"{named[0]} takes names of your choice; add one with a plus: {example}"
    if key in valid:
        return f"{key} is no setting of this kind of model: leave it out, or choose another model="
    meant = [one for one in synonyms(key) if one.partition("=")[0] in valid]
    meant = meant or [name for name in valid if name.rpartition(".")[2] == last]
    beside = [name for name in (*valid, *groups) if name.rpartition(".")[0] == section]
    close = difflib.get_close_matches(last, [name.rpartition(".")[2] for name in beside], n=2)
    found = [f"{section}.{name}".lstrip(".") for name in dict.fromkeys(close)]
    meant = meant or found or ([] if beside else difflib.get_close_matches(key, valid, n=1))
    if meant:
        return f"there is no setting {key!r}: did you mean {' or '.join(map(repr, meant))}?"
    help_of = f"--help {section}" if beside and section else "--help"
    return f"there is no setting {key!r}: {help_of} lists them"


def _wrong_value(error: OmegaConfBaseException) -> str:
    """Which values a setting takes that was given another one."""
    hints = get_type_hints(error.object_type) if _is_settings(error.object_type) else {}
    hint = hints.get(error.key, error.ref_type)
    kinds = [get_origin(one) or one for one in get_args(hint) or ()] if _optional(hint) else []
    kinds = kinds or [get_origin(hint) or hint]
    wanted = [VALUES[kind] for kind in kinds if kind in VALUES] or ["another value"]
    if _optional(hint):
        wanted.append("null")
    value = "" if error.key is None else f"={'null' if error.value is None else error.value}"
    return f"{error.full_key}{value}: give {', or '.join(wanted)}"


def _optional(hint: Any) -> bool:
    return type(None) in get_args(hint)
