"""The real command: what is wrong stands in one line on stderr."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import Any

import pytest
from conftest import ROOT

ABSENT = "data.members.composed.path=/nonexistent"


def train(
    *overrides: str, cwd: Any, before: tuple[str, ...] = (ABSENT,)
) -> subprocess.CompletedProcess[str]:
    # Were a mistake not noticed, the missing corpus would still keep training from starting.
    command = [sys.executable, str(ROOT / "scripts" / "train.py"), *before]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "WANDB_MODE": "disabled"}
    return subprocess.run(
        [*command, *overrides],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.mark.parametrize(
    ("overrides", "code", "useful"),
    [
        (["model=bsae"], 2, "model=bsae is not known: did you mean 'base'?"),
        (["model.d_modle=3"], 2, "no setting 'model.d_modle': did you mean 'model.d_model'"),
        (["trainer.max_steps=abc"], 2, "trainer.max_steps=abc is no length: give a number"),
        (["trainer.max_steps"], 2, "cannot read 'trainer.max_steps': settings are given as name="),
        (["model=rnn_attention", "model.n_heads=2"], 2, "model.n_heads is no setting of this kind"),
        (["model.architecture=rnn_attention"], 2, "rnn_attention belongs to the preset"),
        (["model=rnn_attention", "+model.n_heads=4"], 2, "no setting model.n_heads: choose one"),
        (["foo"], 2, "cannot read 'foo': settings are given as name=value"),
        (["model.d_model=100", "model.n_heads=8"], 2, "make d_model a multiple of n_heads"),
        (["resume=/nonexistent"], 1, "resume=/nonexistent: no run is there"),
    ],
)
def test_a_mistake_on_the_command_line_is_one_plain_message(overrides, code, useful, tmp_path):
    result = train(*overrides, cwd=tmp_path)
    assert result.returncode == code
    assert result.stderr.startswith("error: ")
    assert useful in result.stderr
    assert "Traceback" not in result.stderr
    assert not any(tmp_path.iterdir())


def test_a_copy_of_the_package_without_its_settings_says_how_to_install_it(tmp_path):
    """As `pip install .` makes it, without -e; the scripts run from the clone all the same."""
    weights = shutil.ignore_patterns("*.safetensors")
    shutil.copytree(ROOT / "seq2seq", tmp_path / "seq2seq", ignore=weights)
    result = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "train.py")],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert result.returncode == 1
    assert result.stderr.startswith(f"error: the package in {tmp_path} is a copy without configs/")
    assert result.stderr.endswith("pip install -e .\n")


def test_resuming_refuses_what_may_not_change(tmp_path):
    (tmp_path / "config.yaml").write_text("seed: 3\n")
    result = train("data.train=x", f"resume={tmp_path}", before=(), cwd=tmp_path)
    assert result.returncode == 1
    assert "data.train cannot change (only trainer.*, checkpoint.*, logger.*, data.path, " in (
        result.stderr
    )


@pytest.mark.parametrize(
    ("override", "useful"),
    [
        ("dry_run=true", "dry_run= says what a new one would take: give one of them"),
        ("debug=overfit", "debug= chooses a short run of its own: give one of them"),
        ("trainer=cpu", "give only those that shall change, each as trainer.NAME=VALUE"),
    ],
)
def test_what_makes_no_sense_for_a_run_that_goes_on_is_said(override, useful, tmp_path):
    (tmp_path / "config.yaml").write_text("seed: 3\n")
    result = train(override, f"resume={tmp_path}", before=(), cwd=tmp_path)
    assert result.returncode == 1
    assert result.stderr.startswith(f"error: resume={tmp_path} ")
    assert useful in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_resuming_a_kind_of_model_that_is_not_known_names_the_known_ones(tmp_path):
    (tmp_path / "config.yaml").write_text("model:\n  architecture: rnn_atention\n")
    command = [sys.executable, str(ROOT / "scripts" / "train.py"), f"resume={tmp_path}"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert result.returncode == 1
    assert "architecture=rnn_atention is not known: did you mean 'rnn_attention'" in result.stderr


@pytest.mark.parametrize("override", ["model=null", "+model.x=3"])
def test_odd_overrides_are_plain_messages_too(override, tmp_path):
    result = train(override, cwd=tmp_path)
    assert result.returncode == 2
    assert "Traceback" not in result.stderr
