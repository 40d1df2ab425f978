"""`scripts/compare_attention.py`: what it counts is counted by hand; speed is not judged."""

import json

import pytest

SMALL = (
    "model=tiny", "model.d_model=32", "model.n_heads=2", "sentences=3", "length=8", "repeats=1",
    "vocab_size=50",
)  # fmt: skip


@pytest.mark.slow
def test_variants_are_measured_side_by_side(script):
    result = script("compare_attention", *SMALL)
    assert result.returncode == 0, result.stderr
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert [(row["variant"], row["kernel"]) for row in rows] == [
        ("multi-head", "sdpa"),
        ("multi-query", "sdpa"),
        ("multi-head", "reference"),
        ("multi-query", "reference"),
        ("additive RNN", "-"),
    ]
    layers, head_dim, number = 4, 16, 4  # bytes of a float
    for row, kv_heads in zip(rows, (2, 1, 2, 1), strict=False):
        per_position = 2 * layers * kv_heads * head_dim * number  # keys and values
        assert row["cache_bytes_per_token"] == per_position
        assert row["source_bytes_per_sentence"] == 8 * per_position
    assert rows[4]["cache_bytes_per_token"] == 0
    saved = 3 * layers * 2 * (head_dim * 32 + head_dim)  # k_proj and v_proj of one head
    assert rows[0]["parameters"] - rows[1]["parameters"] == saved
    for row in rows:
        assert row["train_tokens_per_second"] > 0 < row["decode_tokens_per_second"]
        assert row["variant"] in result.stderr


def test_only_transformers_have_heads_to_vary(script):
    result = script("compare_attention", "model=rnn_attention")
    assert result.returncode == 2
    assert "model=rnn_attention has no heads to vary: choose a transformer" in result.stderr
