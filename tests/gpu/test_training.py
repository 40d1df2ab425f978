"""Training on the device of `conftest.py`: precision, resuming, compiling, several processes."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from conftest import ENVIRONMENT, ROOT, TOY, run_command
from tiny_training import KeptFaults, Recorder, fp16, tiny_fit, tiny_task, weights

from seq2seq.config import OptimConfig
from seq2seq.training.checkpointing import checkpoint_path
from seq2seq.training.distributed import make_fabric

pytestmark = pytest.mark.gpu
TWO = Path(__file__).with_name("two_processes.py")
LAUNCHER = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2")


def curve(device: str, accelerator: str, precision: str, **options) -> Recorder:
    recorder = Recorder()
    fabric = make_fabric(accelerator, precision)
    tiny_fit(tiny_task(), [recorder], 30, fabric=fabric, precision=precision, **options)
    return recorder


@pytest.mark.parametrize("precision", ["bf16-mixed", "16-mixed"])
def test_the_curve_of_half_precision_is_beside_that_of_fp32(precision, device, accelerator):
    if precision == "16-mixed" and device == "cpu":
        pytest.skip("fp16 needs a GPU; its loss scaling is in tests/unit/training")
    exact = curve(device, accelerator, "32-true")
    half = curve(device, accelerator, precision)
    assert exact.nll[-1] < exact.nll[0] - 0.5
    # fp16 skips its first steps, until it has found its scale.
    skipped = sum(half.skipped)
    gaps = [abs(one - other) for one, other in
            zip(half.nll[skipped:], exact.nll[: 30 - skipped], strict=True)]
    assert max(gaps) < 0.1


@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed", "16-mixed"])
def test_a_run_that_goes_on_ends_like_one_that_never_stopped(
    precision, device, accelerator, tmp_path
):
    def fit(task, **options):
        scaled = precision == "16-mixed"  # by a scale that changes in these steps
        fabric = (fp16(1024.0, growth_interval=3, device=device) if scaled
                  else make_fabric(accelerator, precision))
        return tiny_fit(task, [], 8, fabric=fabric, precision=precision, ema=0.9,
                        val_every_n_steps=99, **options)

    whole, again = tiny_task(dropout=0.1), tiny_task(dropout=0.1)
    torch.manual_seed(3)
    trainer = fit(whole, run_dir=tmp_path, save_every=4)
    resumed = fit(again, checkpoint=checkpoint_path(tmp_path, 4))
    for name, value in weights(whole).items():
        torch.testing.assert_close(weights(again)[name], value, rtol=1e-6, atol=1e-7)
    if precision == "16-mixed":  # the scale has doubled before the save and after it
        assert trainer.scaler.get_scale() == resumed.scaler.get_scale() == 4096
        assert trainer.scaler.state_dict() == resumed.scaler.state_dict()


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_a_step_that_the_device_skips_by_itself_leaves_no_trace(device, accelerator, optimizer):
    """On a GPU nothing waits for the judgement; the report comes one step later."""
    optim = OptimConfig(
        optimizer=optimizer, schedule="wsd", lr=0.01, warmup_steps=1, weight_decay=0.1
    )
    recorder, kept, task = Recorder(), KeptFaults(), tiny_task(optim)
    passes = []

    def poisoned(gradient):
        passes.append(1)
        return gradient * float("nan") if len(passes) == 3 else gradient

    task.model.output.weight.register_hook(poisoned)
    fabric = make_fabric(accelerator, "32-true")
    trainer = tiny_fit(task, [recorder], 5, fabric=fabric, skipped_steps=kept)
    assert trainer.skips_on_device == (device == "cuda")
    assert recorder.skipped == [False, False, True, False, False]
    assert [step for step, *_ in kept.skipped] == [3]
    before, after = recorder.weights[1:3]
    assert all(before[name].equal(after[name]) for name in before)
    assert all(one.equal(two) for one, two in zip(*recorder.moments[1:3], strict=True))


def two_processes(way: str, device: str) -> list[dict]:
    result = run_command(*LAUNCHER, TWO, way, device)
    assert result.returncode == 0, result.stdout + result.stderr
    return [json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")]


@pytest.mark.slow
def test_shards_need_less_memory_than_copies_and_learn_the_same(two_devices):
    copies, shards = two_processes("ddp", two_devices), two_processes("fsdp", two_devices)
    assert shards[0]["nll"] == pytest.approx(copies[0]["nll"], abs=0.05)
    for one, other in zip(shards, copies, strict=True):
        assert one["state"] < 0.55 * other["state"]  # weights and moments
        assert one["gathered"] == 13 * 4  # 12 layers and the rest: once in each of 4 updates
        if two_devices == "cuda":
            assert one["peak"] < other["peak"]


@pytest.mark.slow
def test_a_compiled_model_learns_the_same_in_two_processes(two_devices):
    plain, compiled = (two_processes(way, two_devices) for way in ("ddp", "compile"))
    assert compiled[0]["nll"] == compiled[1]["nll"] == pytest.approx(plain[0]["nll"], abs=0.05)


def processes_on_first(device: str) -> int:
    """Count the processes with a context on the first GPU; containers hide whose they are."""
    if device == "cpu":
        return 0
    gpu = f"GPU-{torch.cuda.get_device_properties(0).uuid}"
    found = run_command("nvidia-smi", f"--id={gpu}", "--query-compute-apps=pid",
                        "--format=csv,noheader")
    assert found.returncode == 0, found.stdout + found.stderr
    return len(found.stdout.split())


@pytest.mark.slow
def test_no_process_takes_memory_of_the_first_gpu_but_the_first(
    two_devices, accelerator, toy_corpus, tmp_path
):
    """While the real command trains."""
    before, most = processes_on_first(two_devices), 0
    command = [*LAUNCHER, ROOT / "scripts" / "train.py", *TOY, f"data.path={toy_corpus}",
               f"run_dir={tmp_path / 'run'}", f"trainer.accelerator={accelerator}",
               "trainer.devices=2", "trainer.strategy=ddp", "trainer.max_steps=20", "logger=csv"]
    with (tmp_path / "log").open("w") as log, subprocess.Popen(
        [*map(str, command)], cwd=ROOT, env=ENVIRONMENT, stdout=log, stderr=log
    ) as process:
        while process.poll() is None:
            most = max(most, processes_on_first(two_devices) - before)
            time.sleep(0.1)
    assert process.returncode == 0, (tmp_path / "log").read_text()
    assert most == (two_devices == "cuda")
