"""What a shell runs so that it completes `seq2seq` and `translate`: commands, options, settings."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import shtab

from seq2seq.cli.names import choices_of, presets_of, settings_of
from seq2seq.config import AverageConfig, EvaluateConfig, PrepareConfig, TrainConfig
from seq2seq.config.checked import groups_of
from seq2seq.errors import SCRIPT_NAMES

SETTINGS = {  # of the commands that are given NAME=VALUE; the others have options
    "train": TrainConfig, "evaluate": EvaluateConfig, "prepare": PrepareConfig,
    "average": AverageConfig,
}  # fmt: skip
# What is typed, then all words. Before a `.` or `=` is typed, one word stands for its whole group;
# after `=`, where no words are known, files are offered.
OFFER = r"""
_seq2seq_offer() {
  printf '%s\n' "${@:2}" | awk -v typed="$1" '
    substr($0, 1, length(typed)) == typed {
      if (typed !~ /[.=]/ && match($0, /[.=]/)) $0 = substr($0, 1, RSTART)
      if ($0 != typed && !seen[$0]++) print
    }'
}
"""
BASH = r"""
COMP_WORDBREAKS=${COMP_WORDBREAKS//=}  # else NAME=VALUE would be three words
_seq2seq_settings() {
  local found
  found=$(_seq2seq_offer "$@")
  if [[ -n $found ]]; then echo "$found"
  elif [[ $1 == *=* ]]; then compgen -P "${1%%=*}=" -f -- "${1#*=}"; fi
}
_seq2seq() {
  _shtab_seq2seq "$@"
  if [[ ${COMPREPLY[*]} == *[.=] ]]; then compopt -o nospace 2> /dev/null; fi  # bash 4
}
"""
ZSH = r"""
_seq2seq_settings() {
  local found
  found=(${(f)"$(_seq2seq_offer "$PREFIX" "$@")"})
  if (( $#found )); then compadd -S '' -- $found
  elif compset -P '*='; then _files; fi
}
"""


def completion(
    shell: str, commands: Mapping[str, str], module_of: Callable[[str], str]
) -> str:
    """What `shell`, bash or zsh, is to run.

    Args:
        shell: it.
        commands: of `seq2seq`, and what each does.
        module_of: the module of each.
    """
    whole = argparse.ArgumentParser("seq2seq", description="English-French transformers")
    whole.add_argument("--version", action="store_true", help="which version this is")
    add = whole.add_subparsers(title="commands").add_parser
    alone = argparse.ArgumentParser("translate", description=commands["translate"])
    for name, what in commands.items():
        parser = add(name, help=what, description=what)
        if name in SETTINGS:
            if name == "train":
                parser.add_argument("-m", "--multirun", action="store_true", help="several runs")
            settings: Any = parser.add_argument("setting", nargs="*", help="NAME=VALUE")
            settings.complete = _function(name, shell)
            continue
        for each in (parser, *[alone] * (name == "translate")):
            for option, action in import_module(module_of(name)).COMMAND.fill(each):
                action.choices = option.choices or None
                if option.kind is Path:
                    action.complete = shtab.FILE
    preamble = OFFER + (BASH if shell == "bash" else ZSH)
    # In zsh, shtab lets one argument come where there may be several.
    code = shtab.complete(whole, shell, preamble=preamble).replace('"(*)::', '"*:')
    if shell == "bash":
        code += "\ncomplete -o bashdefault -F _seq2seq seq2seq"
    return f"{code}\n{shtab.complete(alone, shell)}"


def _function(command: str, shell: str) -> dict[str, Any]:
    """The function of a shell that completes the settings of a command."""
    name, typed = f"_seq2seq_{command}_settings", '"$1" ' if shell == "bash" else ""
    code = f"{name}() {{ _seq2seq_settings {typed}{shlex.join(words(command))}; }}"
    return {shell: name, "preamble": {shell: code}}


def words(command: str) -> list[str]:
    """All that can be given to a command: presets, settings and the words that they may be."""
    schema, found = SETTINGS[command], []
    for group, presets in presets_of(SCRIPT_NAMES.get(command, command)).items():
        found += [f"{group}={preset}" for preset in presets]
    for name, setting in settings_of(schema).items():
        if name not in groups_of(schema):
            values = ("true", "false") if setting.type == "bool" else choices_of(setting)
            found += [f"{name}={value}" for value in values or [""]]
    return found
