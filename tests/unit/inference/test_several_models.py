"""Bundles that are loaded together are searched as one."""

from pathlib import Path

import pytest
import torch

from seq2seq.bundle.bundle import Bundle
from seq2seq.config import DecodeConfig, TransformerConfig
from seq2seq.data.tokenizer import Tokenizer
from seq2seq.data.vocabularies import Vocabularies
from seq2seq.errors import BundleError
from seq2seq.inference.engines.torch import TorchEngine
from seq2seq.inference.translator import Translator
from seq2seq.model.transformer import Transformer

SENTENCES = ["the big old house is here", "a man reads", "la maison est ici", "un homme lit"]
TEXTS = ["the house", "a man reads here", "no"]
ALONE = {"split": False, "protect": False, "rescue": False}


def make(seed: int, vocabulary: int = 300, normalise: tuple[str, ...] = ()) -> Bundle:
    tokenizer = Tokenizer.train(SENTENCES * 5, vocabulary)
    torch.manual_seed(seed)
    config = TransformerConfig(
        d_model=16, n_heads=2, d_ff=32, encoder_layers=1, decoder_layers=1, max_length=24
    )
    model = Transformer(config, tokenizer.vocab_size).eval()
    with torch.no_grad():
        model.output.weight *= 3
    decode = DecodeConfig(beam=3, max_ratio=1.0, max_extra=4)
    both, training = Vocabularies(tokenizer, tokenizer), {"step": 1, "scores": {}}
    return Bundle(model, both, decode, training, list(normalise))


def saved(bundle: Bundle, folder: Path) -> Path:
    bundle.save(folder)
    return folder


def test_bundles_are_loaded_as_an_ensemble(tmp_path):
    bundles = [make(0), make(1)]
    folders = [saved(bundle, tmp_path / str(i)) for i, bundle in enumerate(bundles)]
    found = Translator.load(folders, "cpu").translate(TEXTS, **ALONE)
    engine = TorchEngine([bundle.model for bundle in bundles])
    expected = Translator(engine, bundles[0].vocabularies, bundles[0].decode)
    assert [(one.text, one.score) for one in found] == [
        (one.text, pytest.approx(one.score, abs=1e-5)) for one in expected.translate(TEXTS, **ALONE)
    ]
    [alone] = Translator.load(folders[0], "cpu").translate(TEXTS[:1], **ALONE)
    assert alone.score != pytest.approx(found[0].score, abs=1e-3)


def test_bundles_that_do_not_speak_the_same_language_are_refused(tmp_path):
    first = saved(make(0), tmp_path / "a")
    other = saved(make(0, vocabulary=290), tmp_path / "b")
    with pytest.raises(BundleError, match=r"/b has another vocabulary than .*/a, so they cannot"):
        Translator.load([first, other], "cpu")
    odd = saved(make(0, normalise=("nfc",)), tmp_path / "c")
    with pytest.raises(BundleError, match=r"/c reads texts normalised by \['nfc'\] and .* by \[\]"):
        Translator.load([first, odd], "cpu")
