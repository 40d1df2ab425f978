"""The site of docs/: it builds without warnings, its links lead somewhere, it needs no network."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from seq2seq.cli.main import COMMANDS
from seq2seq.cli.names import settings_of
from seq2seq.config import TrainConfig
from seq2seq.config.checked import groups_of

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.slow  # builds the whole site


class Page(HTMLParser):
    """What a page loads, what it links to, and what can be linked to in it."""

    def __init__(self, path: Path):
        super().__init__()
        self.loads, self.links, self.ids = list[str](), list[str](), set[str]()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.ids |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a":
            self.links.append(given.get("href", ""))
        elif tag == "link" and given.get("rel") in ("canonical", "prev", "next", "author"):
            return
        else:
            self.loads += [given[name] for name in ("src", "href", "data") if name in given]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site") / "html"
    builder = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html"]
    result = subprocess.run(
        [*builder, ROOT / "docs", folder],
        env={**os.environ, "PYTHONPATH": str(ROOT), "http_proxy": "http://127.0.0.1:9",
             "https_proxy": "http://127.0.0.1:9"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert result.returncode == 0, result.stdout + result.stderr
    return folder


@pytest.fixture(scope="module")
def pages(site):
    return {path: Page(path) for path in site.rglob("*.html")}


def test_nothing_is_loaded_from_elsewhere(site, pages):
    outside = {f"{path.name}: {url}" for path, page in pages.items() for url in page.loads
               if urlsplit(url).netloc}  # fmt: skip
    for style in site.rglob("*.css"):
        found = re.findall(r"url\(['\"]?(https?:[^)]+)", style.read_text(encoding="utf-8"))
        outside |= {f"{style.name}: {url}" for url in found}
    assert not outside


def test_links_lead_to_pages_and_places_that_exist(pages):
    broken = []
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.exists() or (
                parts.fragment and target in pages and
                unquote(parts.fragment) not in pages[target].ids
            ):
                broken.append(f"{path.name}: {link}")
    assert not broken


def test_reference_has_every_setting_and_command(site):
    settings = (site / "reference" / "settings.html").read_text(encoding="utf-8")
    names = {re.sub("<.*?>", "", name) for name in re.findall(r"<code.*?</code>", settings)}
    assert set(settings_of(TrainConfig)) - set(groups_of(TrainConfig)) <= names
    commands = (site / "reference" / "commands.html").read_text(encoding="utf-8")
    assert all(f'<section id="{command}">' in commands for command in COMMANDS)


def test_each_lesson_is_a_notebook_that_has_its_code(site):
    lessons = sorted((ROOT / "docs" / "attention").glob("plot_*.py"))
    notebooks = {path.stem: path for path in site.rglob("*.ipynb")}
    assert set(notebooks) == {lesson.stem for lesson in lessons}
    for lesson in lessons:
        notebook = json.loads(notebooks[lesson.stem].read_text(encoding="utf-8"))
        assert notebook["nbformat"] == 4
        cells = ["".join(one["source"]) for one in notebook["cells"] if one["cell_type"] == "code"]
        for cell in cells:
            assert cell.strip() in lesson.read_text(encoding="utf-8")
        shown = (site / "tutorials" / "attention" / f"{lesson.stem}.html").read_text("utf-8")
        assert shown.count("<img") >= len(cells) // 2
