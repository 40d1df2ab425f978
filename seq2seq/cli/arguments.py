"""Command lines of NAME=VALUE: check them, and rewrite them in Hydra's grammar."""

from __future__ import annotations

import argparse
import re
from collections.abc import Container, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from seq2seq.cli.explain import HOW
from seq2seq.cli.names import choices_of, defaults_of, presets_of, settings_of, unknown
from seq2seq.cli.options import Parser
from seq2seq.config.checked import groups_of
from seq2seq.errors import ConfigError, nearest

TEXT = ("str | None", "str", "Any", "list[str]")  # annotations of settings that may be paths
OWN_NAMES = ("where", "variants", "weights", "final_weights")  # of `data`: users choose the keys


class _Flags(Parser):
    """The flags that a command line may have beside NAME=VALUE."""

    def __init__(self) -> None:
        super().__init__(add_help=False, allow_abbrev=False)
        self.add_argument("-h", "--help", nargs="?", const="", metavar="GROUP")
        self.add_argument("-m", "--multirun", action="store_true")
        self.add_argument("-c", "--cfg", choices=("job",))
        self.add_argument("--resolve", action="store_true")
        self.add_argument("-cd", "--config-dir", type=Path, metavar="FOLDER")


def read_arguments(
    given: Sequence[str], schema: type[Any], config_name: str
) -> tuple[argparse.Namespace, list[str]]:
    """Return the flags of a command line, and its settings in Hydra's grammar.

    Raises:
        ConfigError: the command line has mistakes that show without composing settings.
    """
    presets, defaults = presets_of(config_name), defaults_of(config_name)
    flags, arguments = _Flags().parse_known_args(given)
    if flags.help and "=" in flags.help:
        arguments, flags.help = [flags.help, *arguments], ""
    topics = {"", "all", *groups_of(schema), *presets}
    if flags.help is not None and flags.help not in topics:
        raise ConfigError(f"--help {flags.help} is not a group: {nearest(flags.help, topics)}")
    if flags.multirun and not hasattr(schema, "run_dir"):
        raise ConfigError("-m trains several runs: give this command once for each")
    # Hydra cannot read GROUP=null, which its own files say if no preset is chosen.
    empty = [f"{name}=null" for name, preset in defaults.items() if preset is None]
    arguments = [argument for argument in arguments if argument not in empty]
    free = flags.multirun or flags.config_dir  # there may be other presets, or several
    if problems := [*_wrong(arguments, schema, {} if free else presets, [*presets])]:
        raise ConfigError(*problems)
    arguments = [as_hydra_reads(one, schema, presets, flags.multirun) for one in arguments]
    if (folder := flags.config_dir) is not None:
        if not folder.is_dir():
            raise ConfigError(f"--config-dir {folder}: no such folder; name one of presets")
        arguments.append(f"hydra.searchpath=['file://{folder.resolve()}']")
    return flags, arguments


def _wrong(
    arguments: Sequence[str],
    schema: type[Any],
    valid: Mapping[str, Sequence[str]],
    groups: Sequence[str],
) -> Iterator[str]:
    """Yield what is wrong with arguments that Hydra would accept, or refuse in its own words."""
    chosen, settings = dict[str, str](), settings_of(schema)
    if dashed := [argument for argument in arguments if argument.startswith("-")]:
        name = dashed[0].partition("=")[0].lstrip("-").replace("-", "_")
        hint = f"{name}=VALUE" if name in settings else unknown(name, schema)
        yield f"{dashed[0]}: settings are given as name=value, without dashes; {hint}"
        return
    for argument in arguments:
        key, equals, value = argument.lstrip("+").partition("=")
        if argument.startswith("~"):
            yield f"{argument}: a setting cannot be taken away, only given another value"
        elif not equals or not re.match(r"\w", key):
            yield f"cannot read {argument!r}: {HOW}"
        elif not re.search("[./@]", key) and key not in settings and key not in groups:
            yield unknown(key, schema, groups=groups)
        elif key == "data" and "/" in value:
            yield f"{argument} is not a preset: for your own text, data=files data.path={value}"
        elif key in valid and value not in valid[key] and not re.match(r"\w+,", value):
            yield f"{argument} is not known: {nearest(value, valid[key])}"
        elif key in groups and chosen.setdefault(key, argument) != argument:
            yield f"{chosen[key]} and {argument}: give one of them"


def as_hydra_reads(
    argument: str, schema: type[Any], presets: Container[str], several: bool = False
) -> str:
    """Rewrite an argument in Hydra's grammar, for people who do not know it.

    Text is quoted if Hydra would refuse or split it, such as a path with `=`, `,`, `(` or `é`, but
    not if commas separate `several` values. A plus, which tells Hydra to add a key, is removed if
    the key exists, and written before keys that users choose.
    """
    key, _, value = argument.partition("=")
    name, settings = key.lstrip("+"), settings_of(schema)
    if re.match(rf"data\.(members\.\w+\.)?({'|'.join(OWN_NAMES)})(\.|$)", name):
        return f"++{name}={value}"
    if (name in settings or name in presets) and not value.startswith("{"):
        argument, key = argument.lstrip("+"), name
    field = settings.get(key)
    text = field is not None and field.type in TEXT and not choices_of(field)
    plain = re.fullmatch(r"[\w/.+@?|%*: -]*", value, re.ASCII)
    if several or not text or plain or value[0] in "'\"[{" or "${" in value:
        return argument
    escaped = value.replace("'", "\\'")
    return f"{key}='{escaped}'"
