"""Runs of a sweep: what one of them would be alone."""

from __future__ import annotations

import json
import sys

from omegaconf import OmegaConf

from seq2seq.cli.sweep import Sweep
from seq2seq.errors import RunError

GIVEN = ["-m", "model=tiny", "run_dir=two", "seed=1,2", "hydra.sweep.dir='two'"]


def test_while_a_run_trains_the_command_line_is_its_own(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["scripts/train.py", *GIVEN])
    sweep, seen = Sweep(tmp_path, ("model=tiny", "optim.lr=3e-3", "run_dir=two", "seed=1,2")), []
    config = OmegaConf.create({"run_dir": None, "trainer": {"devices": 1, "num_nodes": 1}})
    overrides = ["model=tiny", "optim.lr=0.003", "run_dir=two", "seed=2"]
    sweep.run(1, config, overrides, lambda *_: seen.append(list(sys.argv)))
    own = ["scripts/train.py", "model=tiny", "optim.lr=0.003", "seed=2",
           f"run_dir={tmp_path / '1-seed_2'}"]  # fmt: skip
    assert seen == [own]
    assert config.run_dir == str(tmp_path / "1-seed_2")
    assert sys.argv[1:] == GIVEN
    assert sweep.run(2, config, overrides, _fail) is None
    assert sys.argv[1:] == GIVEN
    rows = [json.loads(line) for line in sweep.file.read_text().splitlines()]
    assert [row["run"] for row in rows] == [1, 2]
    assert sweep.failures() == ["run 2 (seed=2): it cannot be"]


def _fail(*_: object) -> None:
    raise RunError("it cannot be")
