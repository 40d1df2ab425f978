"""What `--help` prints of a command that is given name=value: purpose, examples, settings."""

from __future__ import annotations

import dataclasses
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from seq2seq.cli.explain import sections
from seq2seq.config import ARCHITECTURES, ModelConfig
from seq2seq.errors import ConfigError, command_line, nearest

WIDTH = 98
FEW = 40  # settings that fit a screen
MEANT = 32  # column in which meanings begin
ACROSS = {
    "experiment": "Settings of several groups at once: a whole recipe",
    "debug": "A short run that shows whether all works",
}
EXIT_CODES = """\
Exit codes: 0 done; 1 something given cannot be used; 2 a setting is wrong;
128 + n stopped by signal n (130 = Ctrl-C)."""


def take_help(arguments: list[str], schema: type[Any], presets: Mapping[str, object]) -> str | None:
    """Take `--help [GROUP]` off the command line; returns the group, "" for none, None if unasked.

    Raises:
        ConfigError: there is no such group.
    """
    flags = [argument for argument in arguments if argument in ("-h", "--help")]
    if not flags:
        return None
    place = arguments.index(flags[0])
    after = arguments[place + 1 : place + 2]
    topic = after[0] if after and "=" not in after[0] and not after[0].startswith("-") else ""
    topics = {"all", *sections(schema), *presets}
    if topic and topic not in topics:
        raise ConfigError([f"--help {topic}: there is no such group: {nearest(topic, topics)}"])
    del arguments[place : place + 1 + bool(topic)]
    return topic


def help_text(
    about: str,
    command: str,
    schema: type[Any],
    values: Mapping[str, Any],
    presets: Mapping[str, Sequence[str]],
    folder: Path,
    topic: str = "",
) -> str:
    """The help of a command, or of one group of its settings.

    Args:
        about: purpose, examples and where to read on; `seq2seq NAME` stands for the command.
        command: its name, such as `train`.
        schema: its settings.
        values: of the settings as the command line has them, by group.
        presets: those that can be chosen, by group.
        folder: holds the YAML files of the presets.
        topic: the group, or `all`; "" for an overview.
    """
    groups, typed = sections(schema), command_line(command)
    if topic and topic != "all":
        return "\n".join(_group(topic, groups.get(topic), values.get(topic), presets, folder))
    own = [field for field in dataclasses.fields(schema) if field.name not in groups]
    count = len(own) + sum(len(values[name] or ()) for name in groups)
    whole = topic == "all" or count <= FEW
    lines = [about.strip().replace(f"seq2seq {command}", typed), "", "Settings:"]
    lines += [line for field in own for line in _setting(field, values[field.name])]
    names = [*dict.fromkeys([*groups, *presets])]
    if names and not whole:
        lines += ["", "Groups of settings (--help GROUP shows one, --help all shows all):"]
    for name in names:
        if whole:
            lines += ["", *_group(name, groups.get(name), values.get(name), presets, folder)]
        else:
            lines += _entry(name, _meaning(name, schema))
            lines += _entry("", f"{name}={' | '.join(presets[name])}" if name in presets else "")
    lines += ["", EXIT_CODES]
    if typed.startswith("python "):  # Hydra completes what a script is given
        lines.append(f'Completion in bash: eval "$({typed} -sc install=bash)"; fish likewise')
    return "\n".join(lines)


def _meaning(name: str, schema: type[Any]) -> str:
    """What a group of settings is for: the first sentence of the docstring of its class."""
    if name in ACROSS:
        return ACROSS[name]
    field = next(field for field in dataclasses.fields(schema) if field.name == name)
    doc: str = field.metadata.get("meaning") or sections(schema)[name].__doc__ or ""
    text = " ".join(doc.split("\n\n")[0].split())
    return re.split(r"(?<! al)\. ", text)[0].removesuffix(".")  # not after "et al."


def _group(
    name: str,
    part: type[Any] | None,
    values: Mapping[str, Any] | None,
    presets: Mapping[str, Sequence[str]],
    folder: Path,
) -> Iterator[str]:
    """A group: the presets with their first sentences, and each setting."""
    if name in presets:
        yield f"{name}: presets, {name}=NAME"
    for preset in presets.get(name, ()):
        yield from _entry(preset, _first_sentence(folder / name / f"{preset}.yaml"))
    if part is None or values is None:
        return
    if issubclass(part, ModelConfig):
        part = ARCHITECTURES[values["architecture"]]
    yield f"{name}: settings, as the command line has them"
    for field in dataclasses.fields(part):
        yield from _setting(field, values[field.name], f"{name}.")


def _first_sentence(file: Path) -> str:
    """What a preset is for, by the comment that it begins with; else what it sets."""
    lines = file.read_text(encoding="utf-8").splitlines()
    comments = [line[2:] for line in lines if line.startswith("# ") and "@package" not in line]
    end = next((n for n, line in enumerate(comments, 1) if line.endswith(".")), len(comments))
    return " ".join(comments[:end]) or "; ".join(lines)


def _setting(field: Any, value: Any, prefix: str = "") -> Iterator[str]:
    yield from _entry(f"{prefix}{field.name}={_shown(value)}", field.metadata.get("meaning", ""))


def _shown(value: Any) -> str:
    """A value as it would be typed."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, list):
        return f"[{','.join(map(_shown, value))}]"
    if isinstance(value, dict):
        return f"{{{','.join(value)}}}"
    return str(value)


def _entry(name: str, meaning: str) -> Iterator[str]:
    """A name and its meaning in two columns."""
    indent = " " * MEANT
    lines = textwrap.wrap(meaning, WIDTH, initial_indent=indent, subsequent_indent=indent)
    if lines and name and len(name) + 4 <= MEANT:
        lines[0] = f"  {name}".ljust(MEANT) + lines[0].strip()
        yield from lines
    else:
        yield from [f"  {name}"] if name else []
        yield from lines
