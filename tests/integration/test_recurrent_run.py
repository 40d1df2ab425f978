"""The recurrent baseline goes through the very commands that transformers go through."""

import json

import pytest
import torch

from seq2seq.evaluation.record import Evaluation

SETTINGS = (
    "experiment=demo",
    "optim=adamw",
    "optim.lr=3e-3",
    "model=rnn_attention",
    "model.d_model=64",
    "model.d_attention=32",
    "model.dropout=0.1",
    "model.max_length=40",
    "data=files",
    "data.max_tokens=512",
    "tokenizer.vocab_size=400",
    "optim.warmup_steps=100",
)


@pytest.fixture(scope="module")
def recurrent_run(script, toy_corpus, tmp_path_factory):
    run_dir = tmp_path_factory.mktemp("runs") / "recurrent"
    settings = [*SETTINGS, f"data.path={toy_corpus}", f"run_dir={run_dir}", "logger=csv"]
    result = script(
        "train",
        *settings,
        "trainer.max_steps=200",
        "trainer.val_every_n_steps=200",
        "checkpoint.every_n_steps=100",
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert "attention: additive" in result.stdout
    result = script(
        "train", f"resume={run_dir}", "trainer.max_steps=400", "trainer.val_every_n_steps=200"
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return run_dir


@pytest.mark.slow
def test_a_resumed_run_is_one_that_never_stopped(script, toy_corpus, recurrent_run, tmp_path):
    result = script(
        "train",
        *SETTINGS,
        f"data.path={toy_corpus}",
        f"run_dir={tmp_path / 'run'}",
        "logger=none",
        "trainer.max_steps=400",
        "trainer.val_every_n_steps=200",
        "checkpoint.every_n_steps=100",
    )
    assert result.returncode == 0, result.stdout + result.stderr
    resumed, whole = (
        f / "checkpoints" / "step-00000400.ckpt" for f in (recurrent_run, tmp_path / "run")
    )
    resumed, whole = (torch.load(f, weights_only=True)["model"] for f in (resumed, whole))
    assert all(torch.equal(resumed[name], whole[name]) for name in whole)


def test_it_learns_is_resumed_and_scored(script, toy_corpus, recurrent_run):
    result = script("evaluate", f"bundle={recurrent_run}", f"data.path={toy_corpus}", "data=files")
    assert result.returncode == 0, result.stderr
    [file] = recurrent_run.glob("evaluation/files-test-*/evaluation.json")
    record = Evaluation.read(file)
    assert record.score("BLEU").value > 60
    assert json.loads((recurrent_run / "summary.json").read_text())["steps"] == 400


def test_it_translates(translate, recurrent_run):
    result = translate("--model", recurrent_run, "two three", "four")
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines() == ["deux trois", "quatre"]


def test_its_card_says_what_it_is(recurrent_run):
    card = (recurrent_run / "bundle" / "README.md").read_text(encoding="utf-8")
    assert "(rnn_attention)" in card
    assert "1 bidirectional + 1 recurrent layers of width 64, additive attention" in card
