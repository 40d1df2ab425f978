"""`scripts/compare_attention.py`: what it counts is counted by hand; speed is not judged."""

import csv

SMALL = (
    "model=tiny", "model.d_model=32", "model.n_heads=2", "sentences=3", "length=8", "repeats=1",
    "vocab_size=50",
)  # fmt: skip


def rows_of(file):
    with file.open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


def test_variants_are_measured_side_by_side(script, tmp_path):
    result = script("compare_attention", *SMALL, f"output={tmp_path / 'out'}")
    assert result.returncode == 0, result.stderr
    rows = rows_of(tmp_path / "out" / "models.csv")
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
        assert float(row["cache_bytes_per_token"]) == per_position
        assert float(row["source_bytes_per_sentence"]) == 8 * per_position
    assert float(rows[4]["cache_bytes_per_token"]) == 0
    saved = 3 * layers * 2 * (head_dim * 32 + head_dim)  # k_proj and v_proj of one head
    assert int(rows[0]["parameters"]) - int(rows[1]["parameters"]) == saved
    for row in rows:
        assert float(row["train_tokens_per_second"]) > 0 < float(row["decode_tokens_per_second"])
        assert row["variant"] in result.stdout


def test_trained_runs_are_shown_with_their_bleu(script, toy_run, tmp_path):
    result = script("compare_attention", *SMALL, f"runs=[{toy_run}]", f"output={tmp_path}")
    assert result.returncode == 0, result.stderr
    (row,) = rows_of(tmp_path / "models.csv")
    assert (row["variant"], row["bleu_of"]) == ("toy", "files validation")
    assert float(row["bleu"]) > 50
    assert row["bleu"].removesuffix(".0") in result.stdout


def test_files_that_are_there_are_not_overwritten(script, tmp_path):
    (tmp_path / "models.csv").write_text("mine")
    result = script("compare_attention", f"output={tmp_path}")
    assert result.returncode == 1
    assert f"output={tmp_path} already holds files: choose another folder" in result.stderr
    assert (tmp_path / "models.csv").read_text() == "mine"


def test_only_transformers_have_heads_to_vary(script):
    result = script("compare_attention", "model=rnn_attention")
    assert result.returncode == 2
    assert "model=rnn_attention has no heads to vary: choose a transformer" in result.stderr
