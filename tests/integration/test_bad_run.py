"""A learning rate that is far too high: the run stops as asked, and goes on as asked."""

from __future__ import annotations

import json
import re

from conftest import TOY

DIVERGES = ("optim.lr=0.5", "optim.warmup_steps=30", "trainer.max_loss_spike=0.5", "logger=csv",
            "decode=greedy", "trainer.val_every_n_steps=1000")


def test_a_jump_of_the_loss_stops_a_run_that_can_go_on_behind_it(script, toy_corpus, tmp_path):
    run_dir = tmp_path / "run"
    result = script("train", *TOY, *DIVERGES, f"data.path={toy_corpus}", f"run_dir={run_dir}",
                    "trainer.max_steps=200", "trainer.on_loss_spike=stop")
    assert result.returncode == 1, result.stdout + result.stderr
    assert "was left out: the loss jumped by more than trainer.max_loss_spike=0.5" in result.stderr
    assert f"resume={run_dir} trainer.on_loss_spike=skip" in result.stderr
    assert "Traceback" not in result.stderr
    found = re.search(r"step (\d+) was left out.*begin at (\{.*?\})\. The state", result.stderr)
    step, place = int(found[1]), json.loads(found[2])
    assert place["epoch"] > 0 or place["batch"] == step - 1
    assert (run_dir / "checkpoints" / f"step-{step:08d}.ckpt").is_file()

    result = script("train", f"resume={run_dir}", "trainer.on_loss_spike=skip",
                    "trainer.max_loss_spike=100", f"trainer.max_steps={step + 3}")
    assert result.returncode == 0, result.stdout + result.stderr
    assert f"resuming    after step {step}" in result.stdout
