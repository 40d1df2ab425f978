"""Commands on the pages of docs/ print what the pages say, and leave out no option."""

from __future__ import annotations

import argparse
import io
import json
import re
import shlex
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from test_docs import PAGES, blocks, stripped

from seq2seq.cli import score, translate
from seq2seq.evaluation.record import Evaluation

ROOT = Path(__file__).resolve().parents[2]
NUMBER = re.compile(r"-?\d+\.\d+")  # whose last digits differ between processors
README = ROOT / "README.md"
CONSOLE = [
    pytest.param(page, block, id=f"{page.stem} line {block.line}")
    for page in [*PAGES, README]
    for block in blocks(page.read_text(encoding="utf-8"))
    if block.language == "console" and not (page == README and "runs/demo" in str(block.lines))
]


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
            assert words[:2] == ["seq2seq", "score"]
            monkeypatch.setattr(sys, "argv", words[1:])
            score.main()
        return capsys.readouterr().out.splitlines()

    return run


@pytest.mark.parametrize(("page", "block"), CONSOLE)
def test_commands_print_what_the_page_says(page, block, shell, tmp_path, monkeypatch):
    if page == README:  # the shipped model, as for a user
        monkeypatch.delenv("SEQ2SEQ_MODEL")
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


@pytest.mark.parametrize(
    ("module", "command"),
    [(translate, "translate "), (score, "seq2seq score")],
    ids=["translate", "score"],
)
def test_every_option_is_run(module, command):
    made = module.COMMAND.fill(argparse.ArgumentParser())
    options = {flag for _, action in made for flag in action.option_strings}
    lines = [line for case in CONSOLE for line in case.values[1].lines if line.startswith("$ ")]
    run = {word for line in lines if command in line for word in line.split()}
    assert not options - run - {"--cuda-graphs"}, "has no example"  # it needs a GPU


@pytest.mark.parametrize("page", ["README.md", "docs/tutorials/first-translator.md"])
def test_output_of_the_demo_is_that_of_its_kept_run(page):
    run = ROOT / "results" / "demo"
    [record] = run.glob("evaluation/*/evaluation.json")
    summary = json.loads((run / "summary.json").read_text(encoding="utf-8"))
    said = {line.strip() for line in Evaluation.read(record).in_words()} | {
        f"finished after {summary['seconds']:.0f} s: best validation BLEU "
        f"{summary['best_val_bleu']:.2f} at step {summary['best_step']}"
    }
    lines = {line.strip() for line in (ROOT / page).read_text(encoding="utf-8").splitlines()}
    quoted = {line for line in lines if re.match(r"BLEU  |\d+ sentences;|finished after", line)}
    assert len(quoted) == (3 if page == "README.md" else 2)
    assert quoted <= said
