"""Explain errors of Hydra and OmegaConf: name the setting, and the nearest valid one."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from hydra.errors import MissingConfigException, OverrideParseException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import ConfigAttributeError, ConfigKeyError, OmegaConfBaseException
from yaml import MarkedYAMLError

from seq2seq.cli.names import NEW_MEMBER, unknown
from seq2seq.config import CorpusConfig
from seq2seq.errors import ConfigError, install, nearest

HOW = (
    "settings are given as name=value, without spaces, for example model=base; put quotes around "
    "a value with special characters: 'name=\"value\"'"
)
EXTRAS = ("optuna", "submitit")  # optional packages that are plugins of Hydra
WANTED = {  # by what OmegaConf says of a value of the wrong type
    "converted to Integer": "a whole number",
    "converted to Float": "a number",
    "not a valid bool": "true or false",
    "not a ListConfig": "a list, such as [one,two]",
    "to Dict[": "names and values, such as {one: 1, two: 2}",
    "is not Optional": "a value, since null is none",
}


def explain(error: Exception, schema: type[Any], groups: Iterable[str] = ()) -> str:
    """Explain in a line why Hydra, OmegaConf or YAML cannot compose settings.

    `groups` are the groups that have presets.
    """
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
        return f"{mark.name}, line {mark.line + 1}, is not YAML: {error.problem}"
    caused = error.__cause__ or error.__context__
    cause = error if isinstance(error, OmegaConfBaseException) else caused
    # Only the text of Hydra's error says which file it was reading.
    found = re.match(r"In '([^']+)':", str(error))
    place = f"{found[1]}.yaml: " if found else ""
    if not isinstance(cause, OmegaConfBaseException) or not cause.full_key:
        return place + (" ".join(str(cause or error).split()) or type(error).__name__)
    if CorpusConfig.__name__ in str(cause) and cause.object_type is None:
        return f"{cause.full_key}: {NEW_MEMBER}"
    if isinstance(cause, ConfigAttributeError | ConfigKeyError):
        return place + unknown(cause.full_key, schema, cause.object_type, groups)
    return place + _wrong_type(cause.full_key, str(cause).splitlines()[0])


def _wrong_type(key: str, said: str) -> str:
    wanted = next((kind for sign, kind in WANTED.items() if sign in said), None)
    if wanted is None:
        return f"{key}: {said}"
    value = re.match("Value '(.*?)' ", said)
    return f"{key}={value[1]}: give {wanted}" if value else f"{key}: give {wanted}"


def values_of(config: DictConfig, schema: type[Any]) -> dict[str, Any]:
    """Return composed settings as nested dicts, checked by type only."""
    try:
        values: Any = OmegaConf.to_container(config, resolve=True)
    except OmegaConfBaseException as error:
        raise ConfigError(explain(error, schema)) from error
    return dict(values)
