"""The pages of docs/ say what is true: their snippets run, and their links lead somewhere."""

from __future__ import annotations

import contextlib
import html
import io
import re
import traceback
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from seq2seq import Translator
from seq2seq.config.rules import FIXED, RESUMABLE

ROOT = Path(__file__).resolve().parents[2]
MODEL = ROOT / "docs" / "decoding_model"
PAGES = sorted(set((ROOT / "docs").rglob("*.md")) - {MODEL / "README.md"})
TEXTS = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")]
LINK = re.compile(r"\]\(([^)\s]+)[^)]*\)")
SERVER = "http://127.0.0.1:5000"  # of a snippet, which gets one with the shipped model


@cache
def shipped() -> Translator:
    return Translator.load("general", device="cpu")


def named(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


class Block(NamedTuple):
    """A fenced block: its language, the line of its opening fence (from 1), its lines."""

    language: str
    line: int
    lines: list[str]

    @property
    def end(self) -> int:
        """The line of the closing fence."""
        return self.line + len(self.lines) + 1


def blocks(text: str) -> Iterator[Block]:
    block: Block | None = None
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("```"):
            if block is not None:
                yield block
                block = None
            else:
                block = Block(line[3:].strip(), number, [])
        elif block is not None:
            block.lines.append(line)
    assert block is None, f"line {block.line if block else 0}: a block without end"


def snippets(text: str) -> Iterator[tuple[Block, list[str]]]:
    """Each python block, and the text block that follows it directly (none: no output)."""
    found, lines = list(blocks(text)), text.splitlines()
    for block, after in zip(found, [*found, None][1:], strict=True):
        if block.language == "python":
            follows = (
                after is not None
                and after.language == "text"
                and not "".join(lines[block.end : after.line - 1]).strip()
            )
            yield block, after.lines if follows else []


def stripped(lines: list[str]) -> list[str]:
    return "\n".join(line.rstrip() for line in lines).strip("\n").split("\n")


def run(page: Path, block: Block, names: dict[str, object]) -> list[str]:
    """What a snippet prints. Line numbers of its errors are those of the page."""
    output = io.StringIO()
    where = f"{page.name}:{block.line}"
    try:
        code = compile("\n" * block.line + "\n".join(block.lines), str(page), "exec")
        with contextlib.redirect_stdout(output):
            exec(code, names)
    except Exception as error:
        frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == str(page)]
        if frames:
            where = f"{page.name}:{frames[-1].lineno}"
        pytest.fail(f"{where}: {type(error).__name__}: {error}", pytrace=False)
    return output.getvalue().splitlines()


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_snippets_print_what_the_page_says(page):
    names: dict[str, object] = {"__name__": page.stem}
    text = page.read_text(encoding="utf-8")
    with contextlib.ExitStack() as stack:
        if any(SERVER in line for block, _ in snippets(text) for line in block.lines):
            from served import model_of, serving

            text = text.replace(SERVER, stack.enter_context(serving(model_of(shipped()))))
        for block, expected in snippets(text):
            printed = run(page, block, names)
            assert stripped(printed) == stripped(expected), (
                f"{page.name}:{block.line}: the snippet prints\n" + "\n".join(printed)
            )


@pytest.mark.parametrize("page", [*PAGES, *TEXTS], ids=named)
def test_relative_links_exist(page):
    text = page.read_text(encoding="utf-8")
    inside = {n for block in blocks(text) for n in range(block.line, block.end + 1)}
    missing = []
    for number, line in enumerate(text.splitlines(), 1):
        if number in inside:
            continue
        for target in LINK.findall(line):
            path = target.partition("#")[0]
            made = path.endswith("attention/index.rst")  # by the build; see test_site
            if path and not made and ":" not in path and not (page.parent / path).exists():
                missing.append(f"{page.name}:{number}: {target}")
    assert not missing


def test_pages_that_the_code_names_exist():
    files = [path for folder in ("seq2seq", "scripts", "configs", "data", "results")
             for path in (ROOT / folder).rglob("*.*") if path.suffix in (".py", ".yaml", ".md")]
    assert files
    pages = {(path.relative_to(ROOT).as_posix(), page) for path in [*files, ROOT / "Dockerfile"]
             for page in re.findall(r"docs/[\w/-]+\.md", path.read_text(encoding="utf-8"))}
    assert [f"{path}: {page}" for path, page in sorted(pages) if not (ROOT / page).exists()] == []


def test_picture_of_attention_has_the_tokens_of_the_shipped_model():
    words = shipped().vocabularies
    english = words.source.encode(["My neighbor bought a red car yesterday."])[0]
    french = words.target.encode(["Ma voisine a acheté une voiture rouge hier."])[0]
    svg = (ROOT / "docs" / "_static" / "attention.svg").read_text(encoding="utf-8")
    tokens = [*words.source.tokens(english), "</s>", *words.target.tokens(french), "</s>"]
    assert [html.unescape(text) for text in re.findall(r">([^<]*)</text>", svg)] == tokens


def test_page_on_resuming_names_the_settings_that_may_change():
    page = (ROOT / "docs" / "explanation" / "resume.md").read_text(encoding="utf-8")
    [allowed] = re.findall(r"^## What may change\n\n(.*?)Any other", page, re.M | re.S)
    folders = {"data.path", "data.members.*.path", "data.cache"}
    assert "the folders of the data" in allowed
    named = folders.union(re.findall(r"`([\w.*]+)`", allowed))
    assert named == {*RESUMABLE} | {name.removeprefix("trainer.") for name in FIXED}


def test_a_failing_snippet_names_page_and_line(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# Page\n\n```python\na = 1\na / 0\n```\n", encoding="utf-8")
    ((block, expected),) = snippets(page.read_text(encoding="utf-8"))
    assert expected == []
    with pytest.raises(pytest.fail.Exception, match=r"page\.md:5: ZeroDivisionError"):
        run(page, block, {})


def test_output_belongs_to_a_snippet_only_directly_after_it():
    text = "```python\nprint(1)\n```\n\n```text\n1\n```\n\n```python\n```\nprose\n```text\n2\n```\n"
    assert [expected for _, expected in snippets(text)] == [["1"], []]
