"""The `--help` of commands that take NAME=VALUE: purpose, examples, settings."""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any

from seq2seq.cli.exits import EXITS
from seq2seq.cli.names import presets_of, resources, settings_of
from seq2seq.config import ARCHITECTURES, ModelConfig
from seq2seq.config.checked import groups_of

LAYOUT = partial(argparse.RawDescriptionHelpFormatter, max_help_position=32, width=98)
ACROSS = {
    "experiment": "A recipe: settings of several groups",
    "debug": "A short run that shows whether everything works",
}


def help_text(
    config_name: str, about: str, schema: type[Any], values: Mapping[str, Any], topic: str
) -> str:
    """Return the help of a command: an overview, `all` of its settings, or a group (`topic`).

    `about` says purpose, examples and where to read on; `values` are the settings as the command
    line has them.
    """
    groups, presets = groups_of(schema), presets_of(config_name)
    own = {field.name: values[field.name] for field in fields(schema) if field.name not in groups}
    alone = topic not in ("", "all")
    command, _, part_name = config_name.partition("_")
    typed = f"benchmark.py {part_name}" if command == "benchmark" else f"seq2seq {command}"
    page = argparse.ArgumentParser(
        usage=f"{typed} [NAME=VALUE ...]",
        description=None if alone else about.strip(),
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
    if not topic and names:
        purposes = {name: _purpose(name, schema, presets.get(name, [])) for name in names}
        add("groups of settings (--help GROUP shows one, --help all shows all)", purposes)
        return page.format_help()
    for name in names:
        if name in presets:
            folder = resources() / "configs" / name
            said = {one: preset_purpose(folder / f"{one}.yaml") for one in presets[name]}
            add(f"presets, {name}=NAME", said)
        if values.get(name) is not None:
            part = groups[name]
            if issubclass(part, ModelConfig):
                part = ARCHITECTURES[values[name]["architecture"]]
            add("settings, as the command line has them", _meanings(part, values[name], f"{name}."))
    return page.format_help()


def _meanings(part: type[Any], values: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Return settings as one would type them, and their meanings."""
    return {
        f"{prefix}{field.name}={as_typed(values[field.name])}": field.metadata.get("meaning", "")
        for field in fields(part)
        if field.name in values
    }


def _purpose(name: str, schema: type[Any], presets: list[str]) -> str:
    """Say what a group is for, by the first sentence of its docstring, and list its presets."""
    text = ACROSS.get(name, "")
    if not text:
        field = settings_of(schema)[name]
        doc: str = field.metadata.get("meaning") or groups_of(schema)[name].__doc__ or ""
        text = " ".join(doc.split("\n\n")[0].split())
        text = re.split(r"(?<! al)\. ", text)[0].removesuffix(".")  # not after "et al."
    return f"{text}: {name}={' | '.join(presets)}" if presets else text


def preset_purpose(file: Path) -> str:
    """Say what a preset is for, by the comment at its start; without one, say what it sets."""
    lines = file.read_text(encoding="utf-8").splitlines()
    comments = [line[2:] for line in lines if line.startswith("# ") and "@package" not in line]
    end = next((n for n, line in enumerate(comments, 1) if line.endswith(".")), len(comments))
    return " ".join(comments[:end]) or "; ".join(lines)


def as_typed(value: Any) -> str:
    """Return a value as one would type it."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, list):
        return f"[{','.join(map(as_typed, value))}]"
    if isinstance(value, dict):
        return f"{{{','.join(value)}}}"
    return str(value)
