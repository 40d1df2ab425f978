"""docs/decoding.md: its commands print what it says, and it leaves out no option."""

from __future__ import annotations

import argparse
import dataclasses
import inspect
import io
import re
import shlex
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from test_docs import blocks, stripped

from seq2seq.cli import score, translate
from seq2seq.config import DecodeConfig
from seq2seq.inference.translator import Translator

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "decoding.md"
TEXT = PAGE.read_text(encoding="utf-8")
NUMBER = re.compile(r"-?\d+\.\d+")  # whose last digits differ between processors
CONSOLE = [block for block in blocks(TEXT) if block.language == "console"]


@pytest.fixture
def shell(monkeypatch, capsys, tmp_path):
    """Runs one command line of the page in this process, in a folder that holds but the model."""
    (tmp_path / "docs").symlink_to(ROOT / "docs")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SEQ2SEQ_MODEL", str(ROOT / "docs" / "decoding_model"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "settings"))

    def run(line: str) -> list[str]:
        if match := re.fullmatch(r"printf '(.*)' > (\S+)", line):
            Path(match[2]).write_text(match[1].encode().decode("unicode_escape"))
            return []
        if line.startswith("cat "):
            return Path(line.removeprefix("cat ")).read_text(encoding="utf-8").splitlines()
        given, _, command = line.rpartition(" | ")
        text = shlex.split(given)[1].encode().decode("unicode_escape") if given else ""
        pipe = SimpleNamespace(buffer=io.BytesIO(text.encode()), isatty=lambda: False)
        monkeypatch.setattr(sys, "stdin", pipe)
        words = shlex.split(command)
        if words[0] == "translate":
            monkeypatch.setattr(sys, "argv", words)
            translate.main()
        else:
            assert words[:2] == ["python", "scripts/score.py"]
            monkeypatch.setattr(sys, "argv", words[1:])
            score.main()
        return capsys.readouterr().out.splitlines()

    return run


@pytest.mark.parametrize("block", CONSOLE, ids=lambda block: f"line {block.line}")
def test_commands_print_what_the_page_says(block, shell, tmp_path):
    printed: list[str] = []
    for line in block.lines:
        if line.startswith("$ "):
            printed += [line, *shell(line.removeprefix("$ "))]
    ours, theirs = ("\n".join(stripped(lines)) for lines in (printed, block.lines))
    assert NUMBER.sub("#", ours) == NUMBER.sub("#", theirs), ours
    numbers = ([float(number) for number in NUMBER.findall(text)] for text in (ours, theirs))
    assert next(numbers) == pytest.approx(next(numbers), abs=1e-3), ours
    for name in re.findall(r"--attention (\S+)", "\n".join(block.lines)):
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")


def test_the_page_has_commands():
    assert len(CONSOLE) >= 3


def test_every_setting_is_explained():
    named = set(re.findall(r"`([a-z_]+)[=`]", TEXT)) | set(re.findall(r"\b([a-z_]+)=", TEXT))
    keywords = [
        name
        for function in (Translator.translate, Translator.load)
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.kind is parameter.KEYWORD_ONLY and name != "progress"
    ]
    settings = [field.name for field in dataclasses.fields(DecodeConfig)]
    assert not {*settings, *keywords} - named


@pytest.mark.parametrize(
    ("module", "command"),
    [(translate, "translate "), (score, "python scripts/score.py")],
    ids=["translate", "score"],
)
def test_every_option_is_explained_and_run(module, command):
    made = module.COMMAND.fill(argparse.ArgumentParser())
    options = {option.flag for option, _ in made if option.flag.startswith("--")}
    assert not options - set(re.findall(r"--[a-z][a-z0-9-]*", TEXT))
    lines = [line for block in CONSOLE for line in block.lines if line.startswith("$ ")]
    run = {word for line in lines if command in line for word in line.split()}
    assert not options - run - {"--cuda-graphs"}, "has no example"  # it needs a GPU
