"""What trackers get beside curves; tests/integration reads what W&B writes of it."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
from tiny_bundle import tiny_bundle, translator_of

from seq2seq.trackers import Histogram, Tracker
from seq2seq.training.callbacks import media as media_file
from seq2seq.training.callbacks.gradient_norms import GradientNorms
from seq2seq.training.callbacks.media import PICTURES, Media, confidence_page, row
from seq2seq.training.callbacks.samples import Samples
from seq2seq.training.run_folder import Run
from seq2seq.training.validation import Validation

PAIRS = [("a man reads", "un homme lit"), ("the house", "la maison"), ("", ""),
         ("the big old house is here " * 9, "la grande maison " * 9)]  # fmt: skip


class Kept(Tracker):
    """Keeps what it gets, with the step."""

    def __init__(self):
        self.rows: list[dict] = []

    def log_media(self, what, make, step):
        self.rows.append({**make(), "step": step})


@pytest.fixture
def media(tmp_path):
    """A callback after a validation, and a tracker."""
    bundle = tiny_bundle()
    context = Run(tmp_path, {}, "32-true")
    bleu = Validation(context, PAIRS, bundle.vocabularies, bundle.decode)
    bleu.translations = translator_of(bundle).translate_corpus([source for source, _ in PAIRS])
    bleu.latest = 1.0
    samples, norms = Samples(tmp_path, 4, bleu), GradientNorms()
    samples.keep(2, [1.0, 2.0, 3.0, 4.0])
    made = Media(samples, norms, tmp_path / "gone.html")
    return SimpleNamespace(callback=made, samples=samples, norms=norms, model=bundle.model)


def logged(media, step: int = 2, moment: str = "on_validation_end") -> list[dict]:
    """What one validation gives a tracker; or another moment."""
    tracker = Kept()
    trainer = SimpleNamespace(step=step, model=media.model, trackers=[Tracker(), tracker])
    getattr(media.callback, moment)(trainer)
    return tracker.rows


def test_sentences_that_the_model_cannot_read_have_no_picture(media):
    _, found = logged(media)
    sentences = media.samples.lines[-1]["sentences"]
    for values, sentence in zip(found["samples/fixed"].rows, sentences, strict=True):
        assert values[:-1] == row(2, sentence)
        readable = 0 < len(sentence["source"].split()) < 20 and sentence["hypothesis"]
        assert (values[-1] is not None) == bool(readable), sentence
    assert 0 < len(found["samples/attention"]) < 4
    assert found["step"] == 1


def test_a_run_that_goes_on_says_nothing_of_its_start_again(media):
    [found] = logged(media, 0, "on_train_start")
    assert found.keys() == {"model/parameters", "step"}  # the page on the data was deleted
    assert logged(media, 7, "on_train_start") == []


def test_the_table_has_all_validations_and_the_pictures_of_the_last(media, monkeypatch):
    small = np.zeros((4, 4, 3), np.uint8)
    monkeypatch.setattr("seq2seq.inference.attention_figure.head_picture", lambda *_: small)
    for step in (3, 4, 3):  # the run went on from its third step
        media.samples.keep(step, [1.0, 2.0, 3.0, 4.0])
        table = logged(media)[1]["samples/fixed"]
    assert [values[0] for values in table.rows] == [2] * 4 + [3] * 4
    assert {values[0] for values in table.rows if values[-1] is not None} == {3}
    monkeypatch.setattr(media_file, "ROWS", 5)
    assert [values[0] for values in logged(media)[1]["samples/fixed"].rows] == [2] + [3] * 4


def test_of_many_sentences_some_have_pictures(media, monkeypatch):
    monkeypatch.setattr("seq2seq.inference.attention_figure.head_picture", lambda *_: np.zeros(1))
    one = media.samples.lines[-1]["sentences"][1]
    for count, expected in ((7, 7), (20, 20), (21, 20), (100, 20)):
        found = media.callback._attention([{**one, "hypothesis": "maison"}] * count, media.model)
        assert sum(picture is not None for picture in found) == expected <= PICTURES


def test_captions_show_what_would_hide_text(media):
    one = {**media.samples.lines[-1]["sentences"][1], "source": "the\u202ehouse"}
    [picture] = media.callback._attention([{**one, "hypothesis": "la"}], media.model)
    assert picture.caption == "the‹U+202E›house"


def test_without_samples_there_are_histograms_only(media):
    media.samples.lines = []
    media.norms.since_validation = {"encoder.0": [1.0, 2.0]}
    [found] = logged(media)
    assert {type(value) for value in found.values()} == {Histogram, int}
    assert found["val/reference_words"].values == [3, 2, 0, 27]
    assert found["optim/grad_norm_histogram/encoder.0"].values == [1.0, 2.0]


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
