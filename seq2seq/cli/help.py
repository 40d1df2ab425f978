"""What `--help` prints of a command that is given name=value: purpose, examples, settings."""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping, Sequence
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any

from seq2seq.cli.exits import EXITS
from seq2seq.cli.names import settings_of
from seq2seq.config import ARCHITECTURES, ModelConfig
from seq2seq.config.checked import groups_of
from seq2seq.errors import ConfigError, command_line, nearest

SCREEN = 40  # settings that fit on one
LAYOUT = partial(argparse.RawDescriptionHelpFormatter, max_help_position=32, width=98)
ACROSS = {
    "experiment": "Settings of several groups at once: a whole recipe",
    "debug": "A short run that shows whether all works",
}


def take_help(arguments: list[str], schema: type[Any], presets: Mapping[str, object]) -> str | None:
    """Take `--help [GROUP]` off the command line; returns the group, "" for none, None if unasked.

    Raises:
        ConfigError: there is no such group.
    """
    place = next((n for n, one in enumerate(arguments) if one in ("-h", "--help")), None)
    if place is None:
        return None
    del arguments[place]
    if not arguments[place:] or re.search("^-|=", arguments[place]):
        return ""
    topic, topics = arguments.pop(place), {"all", *groups_of(schema), *presets}
    if topic not in topics:
        raise ConfigError([f"--help {topic}: there is no such group: {nearest(topic, topics)}"])
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
    typed, groups = command_line(command), groups_of(schema)
    own = {field.name: values[field.name] for field in fields(schema) if field.name not in groups}
    whole = len(own) + sum(len(values[name] or ()) for name in groups) <= SCREEN or topic == "all"
    alone = topic not in ("", "all")
    page = argparse.ArgumentParser(
        usage=f"{typed} [NAME=VALUE ...]",
        description=None if alone else about.strip().replace(f"seq2seq {command}", typed),
        epilog=EXITS,
        formatter_class=LAYOUT,
        add_help=False,
    )

    def add(title: str, meanings: Mapping[str, str]) -> None:
        group = page.add_argument_group(title)
        for name, meaning in meanings.items():
            group.add_argument(name, help=meaning.replace("%", "%%"))

    if not alone:
        add("settings", _meanings(schema, own))
    names = [topic] if alone else dict.fromkeys([*groups, *presets])
    if not alone and not whole:
        purposes = {name: _purpose(name, schema, presets) for name in names}
        add("groups of settings (--help GROUP shows one, --help all shows all)", purposes)
        return page.format_help()
    for name in names:
        if name in presets:
            said = {one: preset_purpose(folder / name / f"{one}.yaml") for one in presets[name]}
            add(f"presets, {name}=NAME", said)
        if values.get(name) is not None:
            part = groups[name]
            if issubclass(part, ModelConfig):
                part = ARCHITECTURES[values[name]["architecture"]]
            add("settings, as the command line has them", _meanings(part, values[name], f"{name}."))
    return page.format_help()


def _meanings(part: type[Any], values: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Settings as they would be typed, and what they mean."""
    return {
        f"{prefix}{field.name}={as_typed(values[field.name])}": field.metadata.get("meaning", "")
        for field in fields(part)
        if field.name in values
    }


def _purpose(name: str, schema: type[Any], presets: Mapping[str, Sequence[str]]) -> str:
    """What a group is for, by the first sentence of its class's docstring; its presets."""
    text = ACROSS.get(name, "")
    if not text:
        field = settings_of(schema)[name]
        doc: str = field.metadata.get("meaning") or groups_of(schema)[name].__doc__ or ""
        text = " ".join(doc.split("\n\n")[0].split())
        text = re.split(r"(?<! al)\. ", text)[0].removesuffix(".")  # not after "et al."
    return f"{text}: {name}={' | '.join(presets[name])}" if name in presets else text


def preset_purpose(file: Path) -> str:
    """What a preset is for, by the comment that it begins with; else what it sets."""
    lines = file.read_text(encoding="utf-8").splitlines()
    comments = [line[2:] for line in lines if line.startswith("# ") and "@package" not in line]
    end = next((n for n, line in enumerate(comments, 1) if line.endswith(".")), len(comments))
    return " ".join(comments[:end]) or "; ".join(lines)


def as_typed(value: Any) -> str:
    """A value as it would be typed."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, list):
        return f"[{','.join(map(as_typed, value))}]"
    if isinstance(value, dict):
        return f"{{{','.join(value)}}}"
    return str(value)
