"""The recipes of CONTRIBUTING.md work: their changes fit the code, and their tests pass."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
RECIPES = dict(re.findall(r"^### (.+?)\n(.*?)(?=^##)", PAGE, re.MULTILINE | re.DOTALL))


def changed(text: str, diff: str) -> str:
    """A file after a change. A diff may leave out lines around it, and their common indent."""
    lines = diff.splitlines()
    before = [line[1:] for line in lines if line[0] in " -"]
    after = [line[1:] for line in lines if line[0] in " +"]
    for indent in ("", "    ", "        "):
        old, new = (
            "\n".join(textwrap.indent(line, indent) for line in part) for part in (before, after)
        )
        found = len(re.findall(f"^{re.escape(old)}", text, re.MULTILINE))
        if found:
            assert found == 1, f"stands {found} times in the file:\n{old}"
            return re.sub(f"^{re.escape(old)}", lambda _, new=new: new, text, flags=re.MULTILINE)
    raise AssertionError(f"not in the file:\n{chr(10).join(before)}")


def test_recipes_can_be_followed(tmp_path):
    """All on one copy of the code."""
    for name in ("seq2seq", "configs", "docs/decoding_model"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / name, tmp_path / name, ignore=ignored)
    tests, models = [], []
    for recipe, page in RECIPES.items():
        parts = re.findall(r"^   ```(\w+) (\S+)\n(.*?)^   ```$", page, re.M | re.S)
        for language, path, text in parts:
            file, content = tmp_path / path, textwrap.dedent(text)
            if language == "diff":
                lines = [line[3:] for line in text.splitlines()]
                file.write_text(changed(file.read_text("utf-8"), "\n".join(lines)), "utf-8")
                continue
            assert not file.exists()
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(content, "utf-8")
        own = [path for _, path, _ in parts if path.startswith("tests/")]
        assert own, recipe
        tests += own
        models += [f"model={Path(path).stem}" for _, path, _ in parts if "configs/model" in path]
    plain = ["-p", "no:cacheprovider", "-p", "no:schemathesis"]
    for command in (["-m", "pytest", "-q", *plain, *tests],
                    ["-m", "seq2seq.cli.main", "train", *models, "--cfg", "job"]):  # fmt: skip
        result = subprocess.run(
            [sys.executable, *command], cwd=tmp_path, capture_output=True, text=True,
            env={**os.environ, "PYTHONPATH": str(tmp_path)}, timeout=300, check=False,
        )  # fmt: skip
        assert result.returncode == 0, result.stdout + result.stderr


def test_change_that_does_not_fit_is_an_error():
    assert changed("    a\n    b\n", " a\n+c\n-b") == "    a\n    c\n"
    with pytest.raises(AssertionError, match="not in the file"):
        changed("a\n", "-b")
    with pytest.raises(AssertionError, match="stands 2 times"):
        changed("a\na\n", "-a")
