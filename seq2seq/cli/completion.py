"""Shell completion of `seq2seq` and `translate`: their commands, options and settings."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path

import shtab

from seq2seq.cli.names import choices_of, presets_of, settings_of
from seq2seq.config import AverageConfig, EvaluateConfig, PrepareConfig, TrainConfig
from seq2seq.config.checked import groups_of

SETTINGS = {  # YAML files and settings of the commands that take NAME=VALUE
    "train": ("train", TrainConfig), "evaluate": ("evaluate", EvaluateConfig),
    "prepare": ("prepare_data", PrepareConfig), "average": ("average_checkpoints", AverageConfig),
}  # fmt: skip
BASH = """\
COMP_WORDBREAKS=${COMP_WORDBREAKS//=}  # else NAME=VALUE would be three words
_seq2seq() { _shtab_seq2seq "$@"; [[ ${COMPREPLY[*]} != *= ]] || compopt -o nospace 2>&-; }"""


def completion(shell: str, commands: Mapping[str, str], module_of: Callable[[str], str]) -> str:
    """Return the script for `shell` (bash or zsh); `commands` says what each command does."""
    whole = argparse.ArgumentParser("seq2seq", description="English-French transformers")
    whole.add_argument("--version", action="store_true", help="show the version")
    add = whole.add_subparsers(title="commands").add_parser
    alone = argparse.ArgumentParser("translate", description=commands["translate"])
    for name, what in commands.items():
        parser = add(name, help=what, description=what)
        if name in SETTINGS:
            if name == "train":
                parser.add_argument("-m", "--multirun", action="store_true", help="several runs")
            parser.add_argument("setting", nargs="*", help="NAME=VALUE", choices=words(name))
            continue
        for each in (parser, *[alone] * (name == "translate")):
            for option, action in import_module(module_of(name)).COMMAND.fill(each):
                action.choices = choices_of(option) or None
                if action.type is Path:
                    action.complete = shtab.FILE
    # For zsh, shtab allows only one argument where several are allowed.
    code = shtab.complete(whole, shell, preamble=BASH if shell == "bash" else "")
    if shell == "bash":
        code += "\ncomplete -o bashdefault -F _seq2seq seq2seq"
    return "\n".join([code.replace('"(*)::', '"*:'), shtab.complete(alone, shell)])


def words(command: str) -> list[str]:
    """List the words that complete a command line: presets, settings, and values of settings."""
    config_name, schema = SETTINGS[command]
    found = []
    for group, presets in presets_of(config_name).items():
        found += [f"{group}={preset}" for preset in presets]
    for name, setting in settings_of(schema).items():
        if name not in groups_of(schema):
            values = ("true", "false") if setting.type == "bool" else choices_of(setting)
            found += [f"{name}={value}" for value in values or [""]]
    return found
