"""What W&B gets beside curves: here what may go wrong; tests/integration reads what is written."""

from __future__ import annotations

import math
import os
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import wandb
from tiny_bundle import tiny_bundle, translator_of
from tiny_training import tiny_fit, tiny_task

from seq2seq.callbacks.gradient_norms import GradientNorms
from seq2seq.callbacks.samples import Samples
from seq2seq.callbacks.validation_bleu import ValidationBleu
from seq2seq.callbacks.wandb_media import WandbMedia, confidence_page, row, same_size

PAIRS = [("a man reads", "un homme lit"), ("the house", "la maison"), ("", ""),
         ("the big old house is here " * 9, "la grande maison " * 9)]  # fmt: skip


@pytest.fixture
def media(tmp_path):
    """Around a run of W&B that keeps what is logged."""
    bundle = tiny_bundle()
    bleu = ValidationBleu(PAIRS, bundle.vocabularies, bundle.decode, tmp_path / "bundle", {})
    bleu.translations = translator_of(bundle).translate_corpus([source for source, _ in PAIRS])
    bleu.latest = 1.0
    rows: list[dict] = []
    run = SimpleNamespace(log=rows.append, disabled=False, resumed=False, id="x",
                          config={}, summary={}, finish=lambda: rows.append({"finished": True}))
    samples = Samples(tmp_path, 4, bleu)
    samples._keep(2, [1.0, 2.0, 3.0, 4.0])
    made = WandbMedia(run, tmp_path, samples, GradientNorms())
    return SimpleNamespace(callback=made, run=run, rows=rows, model=bundle.model, samples=samples)


TRAINER = SimpleNamespace(global_step=2, is_global_zero=True)


def test_sentences_that_the_model_cannot_read_have_no_picture(media):
    media.callback.on_validation_epoch_end(TRAINER, SimpleNamespace(model=media.model))
    [logged] = media.rows
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
    trainer = tiny_fit(tiny_task(vocab_size=320), [media.callback], 4, val_every=2)
    assert trainer.global_step == 4
    assert len(media.rows) == 1
    assert caplog.text.count("W&B gets no more tables and pictures of this run: ") == 1


def test_a_disabled_run_costs_nothing(media):
    media.run.disabled = True
    made = WandbMedia(media.run, media.callback.run_dir, media.samples, GradientNorms())
    made.on_train_start(TRAINER, SimpleNamespace(model=None))
    made.on_validation_epoch_end(TRAINER, SimpleNamespace(model=None))
    made.finish({"steps": 2}, upload=True)
    assert media.rows == [{"finished": True}]


def test_without_samples_there_are_histograms_only(media):
    media.samples.latest = None
    media.callback.on_validation_epoch_end(TRAINER, SimpleNamespace(model=media.model))
    [logged] = media.rows
    assert {type(value) for value in logged.values()} == {wandb.Histogram, int}
    assert sum(logged["val/reference_words"].histogram) == 4


def test_infinite_norms_are_left_out_of_histograms(media):
    media.callback.norms.since_validation = {"encoder.0": [1.0, math.inf, 2.0], "x": [math.nan]}
    media.callback.on_validation_epoch_end(TRAINER, SimpleNamespace(model=media.model))
    [logged] = media.rows
    assert sum(logged["optim/grad_norms/encoder.0"].histogram) == 2
    assert "optim/grad_norms/x" not in logged


def test_copies_for_uploading_go_to_the_run_unless_the_user_says_where(media, monkeypatch):
    seen = []
    monkeypatch.delenv("WANDB_DATA_DIR", raising=False)
    media.run.log = lambda values: seen.append(os.environ.get("WANDB_DATA_DIR"))
    media.callback.on_validation_epoch_end(TRAINER, SimpleNamespace(model=media.model))
    assert "WANDB_DATA_DIR" not in os.environ
    monkeypatch.setenv("WANDB_DATA_DIR", "/elsewhere")
    media.callback.on_validation_epoch_end(TRAINER, SimpleNamespace(model=media.model))
    assert seen == [str(Path(media.callback.run_dir) / "wandb"), "/elsewhere"]
    assert os.environ["WANDB_DATA_DIR"] == "/elsewhere"


def test_tokens_of_the_page_are_text_and_never_markup():
    sentence = {"source": "<script>1 & 2", "tokens": ["▁<b>", "x"], "token_log_probs": [0.0, -9.0]}
    page = confidence_page(1500, [sentence])
    assert "&lt;script&gt;1 &amp; 2" in page
    assert '<span title="100.0%" style="background: rgb(198 86 0 / 0.00)">▁&lt;b&gt;</span>' in page
    assert '<span title="0.0%" style="background: rgb(198 86 0 / 1.00)">x</span>' in page
    assert "Step 1,500" in page


def test_pictures_become_as_large_as_the_largest_by_white_at_the_right_and_below():
    one, other = np.zeros((2, 5, 3), np.uint8), np.zeros((4, 1, 3), np.uint8)
    first, none, second = same_size([one, None, other])
    assert none is None
    assert first.shape == second.shape == (4, 5, 3)
    assert (first[:2] == 0).all()
    assert (first[2:] == 255).all()
    assert (second[:, 1:] == 255).all()
