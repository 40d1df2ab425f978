"""The example for SLURM, with stand-ins for its commands."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "train.sbatch"
TRAINING = """#!/bin/bash
echo "$@" > srun.txt
trap 'sleep 0.3; echo > saved.txt; exit 1' TERM  # as torchrun ends, once all is saved
for i in $(seq $TENTHS); do sleep 0.1; done
exit $CODE
"""


@pytest.fixture
def job(tmp_path):
    """Starts the script as SLURM would; training takes so many tenths of a second."""
    commands = {
        "srun": TRAINING,
        "scontrol": '#!/bin/bash\n[ $1 = show ] && printf "a\\nb\\n" || echo "$@" > scontrol.txt\n',
    }
    for name, text in commands.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)

    def start(tenths: int, code: int = 0) -> subprocess.Popen:
        environment = {
            "PATH": f"{tmp_path}:{os.environ['PATH']}", "SLURM_JOB_ID": "7", "CODE": str(code),
            "SLURM_JOB_NODELIST": "[a-b]", "SLURM_JOB_NUM_NODES": "2", "TENTHS": str(tenths),
        }
        return subprocess.Popen(["bash", SCRIPT, "model=big", "data.train=[a.en,a.fr]"],
                                cwd=tmp_path, env=environment)

    return start


def until(path: Path) -> None:
    for _ in range(200):
        if path.exists():
            return
        time.sleep(0.05)
    raise AssertionError(f"{path} never appeared")


def test_one_torchrun_on_each_machine_gets_the_settings(job, tmp_path):
    assert job(0).wait(10) == 0
    arguments = (tmp_path / "srun.txt").read_text().split()
    assert arguments[0] == "torchrun"
    for given in ("--nnodes=2", "trainer=ddp", "--rdzv-endpoint=a:29500", "trainer.num_nodes=2",
                  "run_dir=runs/slurm-7", "model=big", "data.train=[a.en,a.fr]"):
        assert given in arguments
    assert not (tmp_path / "scontrol.txt").exists()


@pytest.mark.parametrize(("number", "again"), [(signal.SIGUSR1, True), (signal.SIGTERM, False)])
def test_the_state_is_saved_before_the_job_is_queued_again(job, tmp_path, number, again):
    process = job(100)
    until(tmp_path / "srun.txt")
    process.send_signal(number)
    assert process.wait(10) == (0 if again else 1)
    assert (tmp_path / "saved.txt").exists()
    assert (tmp_path / "scontrol.txt").exists() == again
    if again:
        assert (tmp_path / "scontrol.txt").read_text() == "requeue 7\n"


def test_a_failure_is_the_failure_of_the_job(job, tmp_path):
    assert job(0, code=1).wait(10) == 1
    assert not (tmp_path / "scontrol.txt").exists()
