"""W&B never asks, hangs or fails, however it is (not) configured."""

from __future__ import annotations

import os
import pty
import subprocess
import sys

import pytest
from conftest import ENVIRONMENT, ROOT, TOY

OFFLINE = "W&B is offline; to upload: wandb sync"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, OFFLINE),
        ({"WANDB_MODE": "online"}, "no key is configured"),
        ({"WANDB_MODE": "nonsense"}, "WANDB_MODE=nonsense is not known"),
        (
            {"WANDB_API_KEY": "x" * 40, "WANDB_BASE_URL": "http://127.0.0.1:9"},
            "127.0.0.1:9 cannot be reached: this run is logged offline",
        ),
    ],
)
def test_training_goes_on_in_a_terminal_without_a_question(
    variables, expected, toy_corpus, tmp_path
):
    """On a real terminal, where W&B would ask for an account if it were let."""
    main, terminal = pty.openpty()
    environment = {k: v for k, v in ENVIRONMENT.items() if not k.startswith("WANDB")}
    environment |= {"HOME": str(tmp_path), **variables}
    process = subprocess.Popen(
        [
            sys.executable, str(ROOT / "scripts" / "train.py"), *TOY, "logger=wandb",
            f"data.path={toy_corpus}", f"run_dir={tmp_path / 'run'}", "trainer.max_steps=1",
            "decode=greedy",
        ],
        cwd=ROOT, env=environment, stdin=terminal, stdout=terminal, stderr=terminal,
    )
    os.close(terminal)
    printed = b""
    try:
        while chunk := os.read(main, 4096):
            printed += chunk
    except OSError:  # how a terminal says that the other end has gone
        pass
    text = printed.decode()
    assert process.wait(timeout=120) == 0, text
    assert expected in text
    assert OFFLINE in text
    assert list((tmp_path / "run" / "wandb").glob("offline-run-*/*.wandb"))
