import json

import pytest

from seq2seq.training.timing import PARTS

SMALL = ("model=tiny", "model.d_model=16", "model.d_ff=32", "model.max_length=40", "data=files",
         "data.max_tokens=512", "cleaning=none", "tokenizer.vocab_size=300")  # fmt: skip


@pytest.mark.slow
def test_what_was_measured_is_one_line(script, toy_corpus):
    result = script("benchmark", "train", *SMALL, f"data.path={toy_corpus}", "warmup_steps=1",
                    "steps=2", "trainer.precision=32-true")  # fmt: skip
    assert result.returncode == 0, result.stderr
    (line,) = (json.loads(line) for line in result.stdout.splitlines())
    assert line["model"] == "tiny"
    assert line["kernel"] == "sdpa"
    assert line["steps"] == 2
    assert line["target_tokens_per_second"] > 0
    parts = sum(line[f"{part}_seconds"] for part in PARTS)  # of two steps: medians are means
    assert abs(parts - line["step_seconds"]) < 1e-4  # rounded
    assert 0 < line["utilisation"] < 1


def test_mistakes_are_one_message(script):
    result = script("benchmark", "train", "trainer.precision=fp8")
    assert result.returncode == 2
    assert result.stdout == ""
    assert result.stderr == (
        "error: trainer.precision=fp8 is not known: choose one of: 16-mixed, 32-true, auto, "
        "bf16-mixed\n"
    )
