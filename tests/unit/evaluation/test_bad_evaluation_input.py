"""The real command: what cannot be scored is one message, and its exit code."""

from __future__ import annotations

import pytest
from tiny_evaluation import REFERENCES, given_files


@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "code", "why"),
    [
        ({"hypothesis": "none.txt"}, 1, "cannot read none.txt"),
        ({"source": "short.txt"}, 1, "has 4 lines but short.txt has 1: line n of one must belong"),
        ({"output": "there.json"}, 1, "there.json or files beside it are of another evaluation"),
        ({"metrics": "BLEU"}, 2, "there is no setting 'metrics'"),
        ({"comet": "model.ckpt"}, 2, "there is no setting 'comet'"),
    ],
)
def test_mistakes_are_one_message_each(settings, code, why, script, tmp_path):
    (tmp_path / "short.txt").write_text("one\n")
    (tmp_path / "there.json").write_text("{}\n")
    given = given_files(tmp_path, REFERENCES) | settings
    result = script("evaluate", *[f"{k}={v}" for k, v in given.items()], cwd=tmp_path)
    assert result.returncode == code
    assert why in result.stderr
    assert "Traceback" not in result.stderr
    assert (tmp_path / "there.json").read_text() == "{}\n"
