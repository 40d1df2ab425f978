"""Commands in shell blocks of the pages are accepted: their options, settings and presets exist."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest
from test_docs import PAGES, TEXTS, blocks, named

from seq2seq.cli.main import COMMANDS, module_of
from seq2seq.cli.settings import hydra_command

FILE = re.compile(r"^cat > (\S+) << (\w+)\n(.*?)^\2$", re.M | re.S)  # which a command reads
START = re.compile(r"seq2seq|translate|scripts/train\.(?:py|sbatch)")


def shell_of(page: Path) -> str:
    """The shell commands of a page, each on a line."""
    lines = list[str]()
    for block in blocks(page.read_text(encoding="utf-8")):
        console = block.language == "console"
        if console or block.language in ("sh", "bash"):
            lines += [s.removeprefix("$ ") for s in block.lines if s.startswith("$ " * console)]
    return "\n".join([*lines, ""]).replace("\\\n", " ")


def commands(shell: str) -> Iterator[list[str]]:
    """Name and arguments of each command of seq2seq, whatever starts it."""
    for part in re.split(r" \| |\n", FILE.sub("", shell)):
        words = shlex.split(part, comments=True)
        for place in [n for n, word in enumerate(words) if START.fullmatch(word)][:1]:
            name, *given = [word for word in words[place:] if word != "..."]
            yield given if name == "seq2seq" else [Path(name).stem, *given]


def check_only(name, schema, *_):
    hydra_command(name, schema, lambda settings: None)


@pytest.mark.parametrize("page", [*PAGES, *TEXTS], ids=named)
def test_commands_are_accepted(page, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    shell = shell_of(page)
    for path, _, content in FILE.findall(shell):
        Path(path).parent.mkdir(parents=True)
        Path(path).write_text(content, encoding="utf-8")
    for name, *given in commands(shell):
        assert name in COMMANDS
        module = import_module(module_of(name))
        monkeypatch.setattr(sys, "argv", [name, *given])
        if hasattr(module, "COMMAND"):
            module.COMMAND.read()
        elif "-m" not in given:  # which would start runs
            monkeypatch.setattr(module, "hydra_command", check_only)
            sys.argv += ["--cfg", "job"] * ("init_from=" in "".join(given))  # which would fetch it
            module.main()
