"""The card of a bundle says what it is made of, how it was trained, and how its score was made."""

from __future__ import annotations

import hashlib
from dataclasses import asdict

import huggingface_hub
import pytest
import sacrebleu
from conftest import toy_settings
from tiny_bundle import tiny_bundle

from seq2seq.bundle.card import model_card
from seq2seq.bundle.hub import eval_results, hub_card
from seq2seq.evaluation.metrics import corpus_scores


def test_a_card_tells_the_recipe_and_the_signature_of_the_score():
    bundle, settings = tiny_bundle(), toy_settings("optim.lr=0.003", "optim.ema=0.99")
    [score] = corpus_scores(["un chat"], ["un chat dort"], ["BLEU"])
    bundle.training = {
        "step": 1800,
        "scores": {"BLEU": score.value},
        "signatures": {"BLEU": score.signature},
        "config": asdict(settings),
    }
    card = model_card(bundle)
    bleu = sacrebleu.BLEU()
    bleu.corpus_score(["un chat"], [["un chat dort"]])
    assert f"- BLEU: {score.value:.2f} (`{bleu.get_signature()}`)" in card
    for fact in (
        "# English to French, base (transformer)", "for 1,800 steps", "AdamW, learning rate 0.003",
        "inverse_sqrt", "100 steps of warm-up", "EMA 0.99", "batches of 1,024 positions",
        "bpe subwords",
    ):  # fmt: skip
        assert fact in card, card
    bundle.training["config"] |= {"init_from": "runs/first"}
    assert "for 1,800 steps, from the weights of an earlier model, with" in model_card(bundle)


@pytest.mark.parametrize(
    ("length", "said"),
    [(1, "1 step of"), (4000, "4,000 steps of"), ("4000", "4,000 steps of"),
     ("2 epochs", "2 epochs of"), ("5Mtokens", "5Mtokens of")],
)  # fmt: skip
def test_a_card_says_lengths_in_their_units(length, said):
    bundle, settings = tiny_bundle(), asdict(toy_settings())
    settings["optim"]["warmup_steps"] = length
    bundle.training = {"step": 1, "scores": {}, "config": settings}
    card = model_card(bundle)
    assert f", {said} warm-up" in card
    assert "for 1 step with seq2seq" in card


def test_a_card_names_the_optimiser():
    bundle = tiny_bundle()
    settings = asdict(toy_settings("optim.optimizer=muon", "optim.lr=0.004"))
    bundle.training = {"step": 1, "scores": {}, "config": settings}
    assert "Recipe: Muon and AdamW, learning rate 0.004," in model_card(bundle)
    del settings["optim"]["optimizer"]  # of before there was a choice
    assert "Recipe: AdamW, learning rate 0.004," in model_card(bundle)


def test_a_card_of_a_bundle_that_knows_nothing_says_so():
    card = model_card(tiny_bundle())
    assert "unknown data" in card
    assert "- not known" in card
    assert "Recipe" not in card


def test_evaluations_of_one_test_set_stand_beside_each_other_on_the_card_of_the_hub(tmp_path):
    results = [
        one
        for settings in ({"beam": 1}, {"beam": 4}, {"beam": 4, "length_penalty": 0.6})
        for one in eval_results("news", "test", {"BLEU": 30.123 + len(settings)}, "f0", settings)
    ]
    (tmp_path / "README.md").write_text(hub_card(tiny_bundle(), None, results), encoding="utf-8")
    [model] = huggingface_hub.ModelCard.load(tmp_path / "README.md").data.to_dict()["model-index"]
    [news] = model["results"]
    assert (news["dataset"]["name"], news["dataset"]["revision"]) == ("news", "f0")
    assert [(one["name"], one["value"], one["args"]) for one in news["metrics"]] == [
        ("BLEU, beam=1", 31.12, {"beam": 1}),
        ("BLEU, beam=4", 31.12, {"beam": 4}),
        ("BLEU, beam=4, length_penalty=0.6", 32.12, {"beam": 4, "length_penalty": 0.6}),
    ]


def test_a_card_has_the_checksums_of_its_files(tmp_path):
    tiny_bundle().save(tmp_path / "bundle")
    card = (tmp_path / "bundle" / "README.md").read_text(encoding="utf-8")
    for name in ("model.safetensors", "tokenizer.json"):
        value = hashlib.sha256((tmp_path / "bundle" / name).read_bytes()).hexdigest()
        assert f"    {value}  {name}\n" in card
