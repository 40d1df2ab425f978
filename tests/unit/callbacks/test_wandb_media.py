"""What W&B gets beside curves: here what may go wrong; tests/integration reads what is written."""

from __future__ import annotations

import gc
import math
import os
import weakref
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import wandb
from tiny_bundle import tiny_bundle, translator_of
from tiny_training import tiny_fit, tiny_task

from seq2seq.callbacks.gradient_norms import GradientNorms
from seq2seq.callbacks.samples import Samples
from seq2seq.callbacks.validation import Validation
from seq2seq.callbacks.wandb import (
    PICTURES,
    WandbMedia,
    confidence_page,
    histogram,
    row,
    same_size,
)
from seq2seq.training.run_folder import Run

PAIRS = [("a man reads", "un homme lit"), ("the house", "la maison"), ("", ""),
         ("the big old house is here " * 9, "la grande maison " * 9)]  # fmt: skip


@pytest.fixture
def media(tmp_path):
    """Around a run of W&B that keeps what is logged."""
    bundle = tiny_bundle()
    context = Run(tmp_path, {}, "32-true")
    bleu = Validation(context, PAIRS, bundle.vocabularies, bundle.decode)
    bleu.translations = translator_of(bundle).translate_corpus([source for source, _ in PAIRS])
    bleu.latest = 1.0
    rows: list[dict] = []
    run = SimpleNamespace(log=rows.append, disabled=False, resumed=False, id="x",
                          config={}, summary={}, finish=lambda: rows.append({"finished": True}))
    samples = Samples(tmp_path, 4, bleu)
    samples._keep(2, [1.0, 2.0, 3.0, 4.0])
    made = WandbMedia(run, tmp_path, samples, GradientNorms())
    return SimpleNamespace(callback=made, run=run, rows=rows, model=bundle.model, samples=samples)


def trainer(media, step: int = 2) -> SimpleNamespace:
    """Of a trainer what the callback looks at."""
    return SimpleNamespace(step=step, model=media.model)


def test_sentences_that_the_model_cannot_read_have_no_picture(media):
    media.callback.on_validation_end(trainer(media))
    _, logged = media.rows
    sentences = media.samples.latest["sentences"]
    table = logged["samples/fixed"]
    for values, sentence in zip(table.data, sentences, strict=True):
        assert values[:-1] == row(2, sentence)
        readable = 0 < len(sentence["source"].split()) < 20 and sentence["hypothesis"]
        assert (values[-1] is not None) == bool(readable), sentence
    assert 0 < len(logged["samples/attention"]) < 4
    assert logged["trainer/global_step"] == 1


def test_what_goes_wrong_is_said_once_and_training_goes_on(media, caplog):
    def fail(values):
        media.rows.append(values)
        raise OSError("no space")

    media.run.log = fail
    assert tiny_fit(tiny_task(vocab_size=320), [media.callback], 4).step == 4
    for part in ("facts of the start", "histograms", "sentences and pictures"):
        assert caplog.text.count(f"W&B did not get all {part}: OSError('no space')") == 1


def test_after_the_process_of_w_and_b_was_killed_nothing_is_tried_again(media, caplog):
    tried = []

    def fail(*_):
        tried.append(1)
        raise ConnectionResetError("Connection lost")

    media.run.log = media.run.finish = fail
    for _ in range(3):
        media.callback.on_validation_end(trainer(media))
    assert len(tried) == 1
    assert caplog.text.count("W&B gets no more tables and pictures of this run: ") == 1
    media.callback.finish({"steps": 2}, upload=True)
    assert "wandb sync" in caplog.text


def test_one_part_that_fails_leaves_the_others(media, monkeypatch):
    monkeypatch.setattr(media.callback, "_attention", lambda *_: 1 / 0)
    media.callback.data_report = media.callback.run_dir / "report.html"  # was deleted
    media.callback.on_train_start(trainer(media, step=0))
    for _ in range(2):
        media.callback.on_validation_end(trainer(media))
    start, *others = media.rows
    assert "model/parameters" in start
    assert ["val/reference_words" in logged for logged in others] == [True, True]


def test_numbers_too_close_for_many_bins_have_one():
    assert histogram([1.0, math.nextafter(1.0, 2)]).histogram == [2]
    assert sum(histogram([1.0, 1.0]).histogram) == 2


def validated(media, steps) -> list[list[list]]:
    """Rows of each table of fixed sentences that validations at these steps log."""
    before = len(media.rows)
    for step in steps:
        media.samples._keep(step, [1.0, 2.0, 3.0, 4.0])
        media.callback.on_validation_end(trainer(media))
    key = "samples/fixed"
    return [logged[key].data for logged in media.rows[before:] if key in logged]


def test_the_table_is_logged_as_a_whole_less_and_less_often_and_at_the_end(media, monkeypatch):
    small = np.zeros((4, 4, 3), np.uint8)
    monkeypatch.setattr("seq2seq.inference.head_picture.head_picture", lambda *_: small)
    tables = validated(media, range(3, 33))  # the fixture has step 2
    lengths = [len(data) // 4 for data in tables]
    assert lengths[:10] == list(range(2, 12))
    assert all(after <= 1.1 * before + 1 for before, after in pairwise(lengths[9:]))
    assert len(lengths) < 25
    for data in tables:
        shown = [values for values in data if values[-1] is not None]
        assert {values[0] for values in shown} == {data[-1][0]}  # pictures of the last only
    assert lengths[-1] < 31
    media.callback.finish({"steps": 32}, upload=False)
    [last] = [logged for logged in media.rows[-2:] if "samples/fixed" in logged]
    assert [values[0] for values in last["samples/fixed"].data[::4]] == list(range(2, 33))
    assert last["trainer/global_step"] == 31


def test_a_run_that_goes_on_has_no_row_twice(media):
    validated(media, [3, 4])
    media.callback._in_table = 0  # as after a start
    [again] = validated(media, [4])
    assert [values[0] for values in again[::4]] == [2, 3, 4]


def test_a_table_has_the_latest_rows_if_w_and_b_would_drop_them(media, monkeypatch):
    monkeypatch.setattr(wandb.Table, "MAX_ROWS", 9)
    tables = validated(media, [3, 4, 5])
    assert [values[0] for values in tables[-1]] == [4] * 4 + [5] * 4


def test_pictures_of_earlier_validations_are_not_kept(media):
    validated(media, [3])
    [first] = [weakref.ref(one) for one in media.callback._pictures if one is not None][:1]
    media.rows.clear()
    validated(media, [4])
    media.rows.clear()
    gc.collect()
    assert first() is None


def test_of_many_sentences_some_have_pictures(media, monkeypatch):
    monkeypatch.setattr("seq2seq.inference.head_picture.head_picture", lambda *_: np.zeros(1))
    one = media.samples.latest["sentences"][1]
    for count, expected in ((20, 20), (21, 11), (100, 20)):
        found = media.callback._attention([{**one, "hypothesis": "maison"}] * count, media.model)
        assert sum(picture is not None for picture, _ in found) == expected <= PICTURES


def test_captions_show_what_would_hide_text(media):
    one = {**media.samples.latest["sentences"][1], "source": "the\u202ehouse", "hypothesis": "la"}
    [(_, caption)] = media.callback._attention([one], media.model)
    assert caption == "the‹U+202E›house"


def test_an_unchanged_bundle_is_logged_once_and_may_lack_its_card(media):
    folder, logged = media.callback.run_dir / "bundle", []
    tiny_bundle().save(folder)
    (folder / "README.md").unlink(missing_ok=True)
    (folder / "part").mkdir()
    (folder / "part" / "file").write_text("x")
    media.run.log_artifact = lambda artifact, aliases: logged.append(artifact)
    (media.callback.run_dir / "wandb").mkdir()
    for _ in range(2):
        media.callback.finish({"steps": 2}, upload=True)
    [artifact] = logged
    assert artifact.description is None
    assert {"config.json", "part/file"} <= artifact.manifest.entries.keys()


def test_a_disabled_run_costs_nothing(media):
    media.run.disabled = True
    made = WandbMedia(media.run, media.callback.run_dir, media.samples, GradientNorms())
    made.on_train_start(trainer(media))
    made.on_validation_end(trainer(media))
    made.finish({"steps": 2}, upload=True)
    assert media.rows == [{"finished": True}]


def test_without_samples_there_are_histograms_only(media):
    media.samples.latest = None
    media.callback.on_validation_end(trainer(media))
    [logged] = media.rows
    assert {type(value) for value in logged.values()} == {wandb.Histogram, int}
    assert sum(logged["val/reference_words"].histogram) == 4


def test_infinite_norms_are_left_out_of_histograms(media):
    media.callback.norms.since_validation = {"encoder.0": [1.0, math.inf, 2.0], "x": [math.nan]}
    media.callback.on_validation_end(trainer(media))
    logged, _ = media.rows
    assert sum(logged["optim/grad_norm_histogram/encoder.0"].histogram) == 2
    assert "optim/grad_norm_histogram/x" not in logged


def test_copies_for_uploading_go_to_the_run_unless_the_user_says_where(media, monkeypatch):
    seen = []
    monkeypatch.delenv("WANDB_DATA_DIR", raising=False)
    media.run.log = lambda values: seen.append(os.environ.get("WANDB_DATA_DIR"))
    media.callback.on_validation_end(trainer(media))
    assert "WANDB_DATA_DIR" not in os.environ
    monkeypatch.setenv("WANDB_DATA_DIR", "/elsewhere")
    media.callback.on_validation_end(trainer(media))
    assert seen == [str(Path(media.callback.run_dir) / "wandb")] * 2 + ["/elsewhere"] * 2
    assert os.environ["WANDB_DATA_DIR"] == "/elsewhere"


def test_tokens_of_the_page_are_text_and_never_markup():
    sentence = {"source": "<script>1 & 2", "tokens": ["▁<b>", "x"], "token_log_probs": [0.0, -9.0]}
    page = confidence_page(1500, [sentence])
    assert "&lt;script&gt;1 &amp; 2" in page
    assert '<span title="100.0%" style="background: rgb(198 86 0 / 0.00)">▁&lt;b&gt;</span>' in page
    assert '<span title="0.0%" style="background: rgb(198 86 0 / 0.60)">x</span>' in page
    assert "Step 1,500" in page


def test_confidence_is_that_of_tokens_without_the_end_mark():
    one = {"index": 0, "source": "", "reference": "", "hypothesis": "", "score": 0, "chrf": 0}
    half = math.log(0.5)
    assert row(1, {**one, "tokens": ["x", "y"], "token_log_probs": [half, half, -9.0]})[-1] == 0.5
    assert row(1, {**one, "tokens": [], "token_log_probs": [-9.0]})[-1] is None


def test_pictures_become_as_large_as_the_largest_by_white_at_the_right_and_below():
    one, other = np.zeros((2, 5, 3), np.uint8), np.zeros((4, 1, 3), np.uint8)
    first, none, second = same_size([one, None, other])
    assert none is None
    assert first.shape == second.shape == (4, 5, 3)
    assert (first[:2] == 0).all()
    assert (first[2:] == 255).all()
    assert (second[:, 1:] == 255).all()
