"""Runs of a sweep: what one of them would be alone."""

from __future__ import annotations

import sys

from seq2seq.cli.sweep import Sweep
from seq2seq.errors import RunError

GIVEN = ["-m", "model=tiny", "run_dir=two", "seed=1,2", "hydra.sweep.dir='two'"]


def test_while_a_run_trains_the_command_line_is_its_own(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["scripts/train.py", *GIVEN])
    sweep, seen = Sweep(tmp_path, ("-m", "model=tiny", "run_dir=two", "seed=1,2")), []
    overrides = ["model=tiny", "run_dir=two", "seed=2"]
    sweep.run(1, overrides, lambda: seen.append(list(sys.argv)))
    own = ["scripts/train.py", "model=tiny", "seed=2", f"run_dir={tmp_path / '1-seed_2'}"]
    assert seen == [own]
    assert sys.argv[1:] == GIVEN
    assert sweep.run(1, overrides, _fail) is None
    assert sys.argv[1:] == GIVEN


def _fail() -> None:
    raise RunError("it cannot be")
