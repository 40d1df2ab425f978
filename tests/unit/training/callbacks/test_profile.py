"""A trace of a few steps, and where their time goes."""

from __future__ import annotations

import json
import logging
import re

from tiny_training import tiny_fit, tiny_task

from seq2seq.training.callbacks.profile import STEPS, WARM_UP, Profile


def fit(folder, steps):
    tiny_fit(tiny_task(), [Profile(folder)], steps, validation=None)


def test_the_trace_has_the_steps_after_the_warm_up_in_parts(tmp_path, caplog):
    caplog.set_level(logging.INFO, logger="seq2seq")
    fit(tmp_path / "profile", WARM_UP + 2 * STEPS)
    events = json.loads((tmp_path / "profile" / "trace.json").read_text())["traceEvents"]
    marks = [event for event in events if event.get("cat") == "user_annotation"]
    for part in ("data", "forward", "backward", "optimiser"):
        assert sum(event["name"] == part for event in marks) == STEPS, part
    assert "aten::addmm" in (tmp_path / "profile" / "operators.txt").read_text()
    printed = caplog.text
    shares = {
        part: float(share)
        for share, part in re.findall(r"(\d+\.\d)% +[\d.]+ ms (\w+)$", printed, re.MULTILINE)
    }
    assert shares.keys() == {"data", "forward", "backward", "optimiser", "other"}
    assert abs(sum(shares.values()) - 100) < 1


def test_a_run_that_is_too_short_says_so_and_writes_what_it_has(tmp_path, caplog):
    fit(tmp_path / "profile", WARM_UP + 1)
    assert (tmp_path / "profile" / "trace.json").exists()
    assert "trainer.profile=true needs 9 steps, and training ended after 4" in caplog.text
