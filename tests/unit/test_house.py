"""Imports point one way: a room imports from those below it, and none from those above."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from conftest import ROOT

# From the top to the bottom; what is not named here stands below all of them.
ROOMS = (
    "cli", "serving", "training", "report", "trackers", "dashboard", "findings", "provenance",
    "evaluation", "documents", "inference", "bundle", "interop", "decoding", "data", "model",
    "config",
)  # fmt: skip
STRANGERS = {("data", "model")}  # they could, but do not know each other


def imports(node: ast.AST) -> Iterator[ast.ImportFrom]:
    """All imports, those inside of functions too, but for those that only types need."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ImportFrom):
            yield child
        elif not (isinstance(child, ast.If) and getattr(child.test, "id", "") == "TYPE_CHECKING"):
            yield from imports(child)


def floor(room: str) -> int:
    return ROOMS.index(room) if room in ROOMS else len(ROOMS)


def test_no_room_imports_from_one_above_it():
    house, wrong = ROOT / "seq2seq", []
    for file in sorted({*house.rglob("*.py")} - {house / "__init__.py"}):  # the door of all
        room = Path(file.relative_to(house).parts[0]).stem
        for found in imports(ast.parse(file.read_text(encoding="utf-8"))):
            package, _, rest = (found.module or "").partition(".")
            other = rest.partition(".")[0]
            upwards = floor(other) < floor(room) or (room, other) in STRANGERS
            if package == "seq2seq" and other and upwards:
                wrong.append(f"{file.relative_to(ROOT)}:{found.lineno} imports from {other}")
    assert not wrong, "\n".join(wrong)


def test_page_on_the_layout_has_this_order():
    page = (ROOT / "docs" / "explanation" / "house.md").read_text(encoding="utf-8")
    [order] = re.findall(r"\n\n((?:    .*→.*\n)+.*)\n\n", page)
    named = [word for word in re.findall(r"\w+", order) if word in ROOMS]
    assert named == [room for room in ROOMS if room != "dashboard"]  # a module, no package
