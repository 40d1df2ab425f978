"""A trace of a few steps."""

from __future__ import annotations

import json

import pytest
from tiny_training import tiny_fit, tiny_task

from seq2seq.training.callbacks.profile import Profile


@pytest.mark.parametrize(("steps", "traced"), [(8, 3), (4, 1)])
def test_the_trace_has_the_steps_after_the_warm_up_in_parts(tmp_path, steps, traced):
    tiny_fit(tiny_task(), [Profile(tmp_path / "profile")], steps, val_every_n_steps=99)
    events = json.loads((tmp_path / "profile" / "trace.json").read_text())["traceEvents"]
    marks = [event for event in events if event.get("cat") == "user_annotation"]
    for part in ("data", "forward", "backward", "optimiser"):
        assert sum(event["name"] == part for event in marks) == traced, part
