"""Processes agree with one that accumulates, share validation, and survive the loss of one."""

from __future__ import annotations

import functools
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from conftest import ENVIRONMENT, ROOT, TOY, run_command
from forked import Command
from safetensors.torch import load_file
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save

from seq2seq.training.checkpointing import newest_checkpoint, read_checkpoint

SETTINGS = (*TOY, "logger=csv", "trainer=cpu", "decode=greedy")
SAME = 1e-5  # relative difference of weights that is but rounding
SCORE_TOGETHER = Path(__file__).with_name("score_together.py")
VALIDATE_TOGETHER = Path(__file__).with_name("validate_together.py")


def torchrun(processes: int, *arguments: object, options: tuple[str, ...] = ()) -> list[str]:
    launcher = (sys.executable, "-m", "torch.distributed.run", "--standalone", *options)
    return [*map(str, (*launcher, f"--nproc-per-node={processes}", *arguments))]


def start_together(processes: int, program: Path, *arguments: object) -> list[Command]:
    """A program in so many processes, with the variables that torchrun gives them."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    shared = {"TORCHELASTIC_RUN_ID": "none", "MASTER_ADDR": "localhost", "MASTER_PORT": str(port),
              "WORLD_SIZE": str(processes), "LOCAL_WORLD_SIZE": str(processes)}
    return [
        Command(program, *arguments, cwd=ROOT,
                env={**ENVIRONMENT, **shared, "RANK": str(rank), "LOCAL_RANK": str(rank)})
        for rank in range(processes)
    ]  # fmt: skip


def train_together(processes: int, *settings: object) -> None:
    train = (ROOT / "scripts" / "train.py", *settings, f"trainer.devices={processes}")
    result = run_command(*torchrun(processes, *train))
    assert result.returncode == 0, result.stdout + result.stderr


def checkpoint(run_dir: Path) -> dict:
    last = sorted((run_dir / "checkpoints").glob("step-*.ckpt"))[-1]
    return torch.load(last, weights_only=True)


def shards(run_dir: Path) -> dict:
    """The whole tensors of a sharded checkpoint."""
    last = sorted((run_dir / "checkpoints").glob("step-*.shards"))[-1]
    dcp_to_torch_save(last, run_dir / "whole.pt")
    return torch.load(run_dir / "whole.pt", weights_only=True)


def weights(run_dir: Path) -> dict[str, torch.Tensor]:
    content = checkpoint(run_dir)
    return content["model"] if content["shards"] is None else shards(run_dir)["model"]


def difference(run_dir: Path, other: Path) -> float:
    """Length of the difference of all weights, relative to them.

    Not the largest of one weight: rounding can bring an input of ReLU to the other side of zero.
    Biases of keys are left out: softmax does not see them, so their gradient is zero but for
    rounding, which Adam makes as large as any other.
    """
    ours, theirs = weights(run_dir), weights(other)
    # Shards have tied weights once.
    names = [name for name in ours.keys() & theirs.keys() if not name.endswith("k_proj.bias")]
    a, b = (torch.cat([state[name].flatten() for name in names]) for state in (ours, theirs))
    return ((a - b).norm() / b.norm()).item()


@pytest.fixture(scope="module")
def alone(script, toy_corpus, tmp_path_factory):
    """10 steps of one process that accumulates so many batches."""
    folder = tmp_path_factory.mktemp("alone")

    @functools.cache
    def train(accumulate: int) -> Path:
        run_dir = folder / str(accumulate)
        result = script("train", *SETTINGS, f"data.path={toy_corpus}", f"run_dir={run_dir}",
                        "trainer.max_steps=10", f"trainer.accumulate={accumulate}")
        assert result.returncode == 0, result.stdout + result.stderr
        return run_dir

    return train


@pytest.mark.slow
@pytest.mark.parametrize(
    ("processes", "accumulate", "strategy"), [(4, 1, "ddp"), (2, 2, "fsdp")]
)
def test_processes_equal_one_that_accumulates(
    processes, accumulate, strategy, alone, toy_corpus, tmp_path
):
    run_dir = tmp_path / "run"
    train_together(processes, *SETTINGS, f"data.path={toy_corpus}", f"run_dir={run_dir}",
                   "trainer.max_steps=10", f"trainer.accumulate={accumulate}",
                   f"trainer.strategy={strategy}")
    assert difference(run_dir, alone(4)) < SAME
    if strategy == "fsdp":
        saved = shards(run_dir)
        assert saved["moments"].keys() == saved["model"].keys()
    shipped, expected = (load_file(run / "bundle" / "model.safetensors")
                         for run in (run_dir, alone(4)))
    assert {name: value.shape for name, value in shipped.items()} == {
        name: value.shape for name, value in expected.items()
    }
    last = weights(run_dir)
    assert shipped.keys() <= last.keys()
    assert all(value.equal(last[name]) for name, value in shipped.items())


@pytest.mark.slow
def test_agreement_in_figures(toy_corpus, tmp_path, capsys):
    """The table of docs/how-to/several-gpus.md: 10 steps of 4 batches, shared in all ways."""
    common = (*SETTINGS, f"data.path={toy_corpus}", "trainer.max_steps=10")
    ways = [(1, "auto"), (2, "ddp"), (4, "ddp"), (2, "fsdp"), (4, "fsdp")]
    for processes, strategy in ways:
        train_together(processes, *common, f"trainer.accumulate={4 // processes}",
                       f"trainer.strategy={strategy}", f"run_dir={tmp_path / strategy}{processes}")
    with capsys.disabled():
        print("\nprocesses x accumulated batches: relative difference to one process")
        for processes, strategy in ways[1:]:
            found = difference(tmp_path / f"{strategy}{processes}", tmp_path / "auto1")
            print(f"{processes} x {4 // processes} {strategy:4} {found:.1e}")
            assert found < SAME


@pytest.mark.slow
def test_shards_go_on_where_one_process_was_and_back(script, alone, toy_corpus, tmp_path):
    """With the weights and the moments of Adam of a run that never changed."""
    run_dir = tmp_path / "run"
    one = ("trainer.strategy=auto", "trainer.devices=1", "trainer.accumulate=2")
    result = script("train", *SETTINGS, *one, f"data.path={toy_corpus}", f"run_dir={run_dir}",
                    "trainer.max_steps=3")
    assert result.returncode == 0, result.stdout + result.stderr
    train_together(2, f"resume={run_dir}", "trainer.strategy=fsdp", "trainer.accumulate=1",
                   "trainer.max_steps=6")
    result = script("train", f"resume={run_dir}", *one, "trainer.max_steps=10")
    assert result.returncode == 0, result.stdout + result.stderr
    assert difference(run_dir, alone(2)) < SAME
    ours, theirs = (checkpoint(run)["optimizer"]["state"] for run in (run_dir, alone(2)))
    assert ours.keys() == theirs.keys()
    for number, moments in theirs.items():
        for name, value in moments.items():
            torch.testing.assert_close(ours[number][name], value, rtol=1e-3, atol=1e-6)


@pytest.mark.slow
def test_processes_translate_the_validation_set_as_one(toy_run, toy_corpus):
    """Each its share; all know the translations of all, in order, and the same BLEU."""
    command = (SCORE_TOGETHER, toy_run, toy_corpus / "val.tsv")
    (expected,) = scored(sys.executable, *command)
    assert expected["bleu"] > 90
    assert len({*expected["translations"]}) > 30
    for processes in (2, 3):
        found = scored(*torchrun(processes, *command))
        assert found == [expected] * processes


def test_shards_are_validated_and_saved_where_processes_have_unequal_shares(tmp_path):
    """One has three batches, the other one: neither waits for the other's weights.

    The run is stopped in a validation and goes on: three saves of one step write its shards once,
    so none takes them from under the file that names them.
    """
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    (expected,), (found,) = (
        lines_of(start_together(processes, VALIDATE_TOGETHER, tmp_path / name))
        for processes, name in ((1, "one"), (2, "two"))
    )
    assert found["nll"] == pytest.approx(expected["nll"], rel=1e-5)
    assert (expected["shards"], found["shards"]) == (0, 1)
    newest = newest_checkpoint(tmp_path / "two")
    assert newest is not None
    assert read_checkpoint(newest).content["validated"]


def lines_of(processes: list[Command]) -> list[dict]:
    """The JSON that processes print, from the first to the last."""
    ended = [(*process.communicate(), process.returncode) for process in processes]
    assert [code for *_, code in ended] == [0] * len(ended), ended
    return [json.loads(line) for printed, *_ in ended for line in printed.splitlines()]


def scored(*command: object) -> list[dict]:
    result = run_command(*command)
    assert result.returncode == 0, result.stdout + result.stderr
    return [json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")]


@pytest.mark.slow
def test_the_loss_of_a_process_costs_only_the_steps_since_the_last_checkpoint(
    toy_corpus, tmp_path
):
    """torchrun starts all processes again, and the run goes on to the very same weights."""
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    common = (*SETTINGS, f"data.path={toy_corpus}", "model.dropout=0.2", "trainer.max_steps=40",
              "trainer.strategy=ddp", "checkpoint.every_n_steps=8")
    train_together(2, *common, f"run_dir={whole}")
    command = torchrun(2, ROOT / "scripts" / "train.py", *common, "trainer.devices=2",
                       f"run_dir={broken}", options=("--max-restarts=3",))
    log = tmp_path / "log"
    environment = {**ENVIRONMENT, "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
    with log.open("w") as out:
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=out, stderr=out)
    try:
        wait_for(broken / "checkpoints" / "step-00000016.ckpt", process)
        os.kill(children(process.pid)[1], signal.SIGKILL)
        assert process.wait(timeout=200) == 0, log.read_text()
    finally:
        process.terminate()  # torchrun ends its processes, if they still run
    assert "resuming" in log.read_text()
    ours, theirs = weights(broken), weights(whole)
    assert all(ours[name].equal(theirs[name]) for name in theirs)


def wait_for(path: Path, process: subprocess.Popen) -> None:
    for _ in range(1200):
        if path.exists():
            return
        assert process.poll() is None
        time.sleep(0.05)
    raise AssertionError(f"{path} never appeared")


def children(pid: int) -> list[int]:
    """Processes that train, by rank; torchrun has no others."""
    return [int(p) for p in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.slow
def test_one_process_goes_on_where_two_were_stopped(script, alone, toy_corpus, tmp_path):
    """From the same place in the data: together they use the batches of one that never stopped."""
    two, common = tmp_path / "two", (*SETTINGS, f"data.path={toy_corpus}")
    train_together(2, *common, f"run_dir={two}", "trainer.strategy=ddp", "trainer.max_steps=6",
                   "data.num_workers=2")
    result = script("train", f"resume={two}", "trainer.devices=1", "trainer.strategy=auto",
                    "trainer.accumulate=2", "trainer.max_steps=10", "data.num_workers=0")
    assert result.returncode == 0, result.stdout + result.stderr
    assert difference(two, alone(2)) < SAME
