"""The whole way: train, evaluate, translate, by the real commands on a toy corpus."""

from __future__ import annotations

import csv
import json

import pytest
import sacrebleu
import yaml
from conftest import TOY, WORDS
from safetensors import safe_open

from seq2seq import Translator
from seq2seq.evaluation.record import Evaluation


def test_a_run_learns_to_translate_what_it_never_saw(toy_run):
    sentence = "nine zero five five one three"
    expected = " ".join(WORDS[word] for word in sentence.split())
    assert Translator.load(toy_run).translate([sentence])[0].text == expected


def test_the_run_says_what_it_does(toy_run):
    printed = toy_run.with_suffix(".log").read_text()
    for fact in ("1,500 training and 40 validation pairs", "parameters", "32-true", str(toy_run)):
        assert fact in printed
    assert "W&B is offline; to upload: wandb sync" in printed
    assert "once `wandb sync` is run (logger.share=all)" in printed


def test_the_run_leaves_what_it_promises(toy_run):
    settings = yaml.safe_load((toy_run / "config.yaml").read_text())
    assert settings["trainer"]["max_steps"] == 600
    assert {path.name for path in (toy_run / "bundle").iterdir()} == {
        "config.json", "model.safetensors", "tokenizer.json", "README.md",
    }
    with safe_open(toy_run / "bundle" / "model.safetensors", "pt") as weights:
        assert "encoder.0.self_attention.q_proj.weight" in weights.keys()  # noqa: SIM118
    assert json.loads((toy_run / "summary.json").read_text())["steps"] == 600
    assert [p.name for p in sorted((toy_run / "checkpoints").iterdir())] == [
        "step-00000500.ckpt", "step-00000600.ckpt",
    ]
    assert list((toy_run / "wandb").glob("offline-run-*/*.wandb"))


def test_the_metrics_are_logged_with_their_steps(toy_run):
    with (toy_run / "metrics" / "version_0" / "metrics.csv").open() as file:
        rows = list(csv.DictReader(file))
    for name in ("train/loss", "train/nll", "optim/lr", "optim/grad_norm",
                 "perf/target_tokens_per_second", "val/nll", "val/bleu"):
        assert any(row[name] for row in rows), name
    losses = [float(row["train/nll"]) for row in rows if row["train/nll"]]
    assert losses[-1] < 0.3 * losses[0]
    assert [int(row["step"]) + 1 for row in rows if row["val/bleu"]] == [300, 600]


AS_EVALUATED = ("--no-split", "--no-protect", "--no-rescue")


def test_validation_bleu_is_that_of_evaluate_and_of_translate_with_sacrebleu(
    toy_run, toy_corpus, script, translate, tmp_path
):
    """Each by its own command, of the same weights, to the last digit."""
    result = script("evaluate", f"bundle={toy_run}", "data=files", f"data.path={toy_corpus}",
                    "split=val", f"output={tmp_path}")
    assert result.returncode == 0, result.stderr
    evaluated = Evaluation.read(tmp_path / "evaluation.json").score("BLEU").value
    bundle = json.loads((toy_run / "bundle" / "config.json").read_text())
    assert evaluated == bundle["training"]["scores"]["BLEU"]
    sources, references = zip(*[line.split("\t") for line in
                               (toy_corpus / "val.tsv").read_text().splitlines()[1:]], strict=True)
    lines = "".join(f"{line}\n" for line in sources)
    translated = translate("--model", toy_run, *AS_EVALUATED, stdin=lines)
    hypotheses = translated.stdout.splitlines()
    assert evaluated == sacrebleu.corpus_bleu(hypotheses, [references]).score


def test_evaluate_translates_a_line_of_two_sentences_and_a_number_at_once(
    toy_run, script, translate, tmp_path
):
    line = "One two three. Four five 2024, six seven."
    (tmp_path / "test.en").write_text(f"{line}\n")
    (tmp_path / "test.fr").write_text("Un deux trois. Quatre cinq 2024, six sept.\n")
    result = script("evaluate", f"bundle={toy_run}", "data=files", f"data.path={tmp_path}",
                    f"output={tmp_path / 'out'}", "training_text=none")  # fmt: skip
    assert result.returncode == 0, result.stderr
    evaluated = (tmp_path / "out" / "hypotheses.txt").read_text()
    plain, asked = (translate("--model", toy_run, *flags, stdin=f"{line}\n").stdout
                    for flags in ((), AS_EVALUATED))  # fmt: skip
    assert asked == evaluated != plain


def test_evaluate_agrees_with_sacrebleu_on_the_files_it_wrote(
    toy_run, toy_corpus, script, tmp_path
):
    result = script("evaluate", f"bundle={toy_run}", "data=files", f"data.path={toy_corpus}",
                    f"output={tmp_path}", "decode=sample", "decode.seed=3")
    assert result.returncode == 0, result.stderr
    hypotheses = (tmp_path / "hypotheses.txt").read_text().splitlines()
    references = (tmp_path / "references.txt").read_text().splitlines()
    record = Evaluation.read(tmp_path / "evaluation.json")
    assert record.score("BLEU").value == sacrebleu.corpus_bleu(hypotheses, [references]).score
    assert record.sentences == 40
    assert (record.decode["strategy"], record.decode["seed"]) == ("sample", 3)
    assert record.decode["batch_tokens"] == 4096  # as the model was validated
    assert record.overlap["training_pairs"] == 1500
    assert "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp" in result.stdout
    for name in ("chrF2", "chrF2++", "TER", "BLEU-tok", "rarest source word in training"):
        assert name in result.stdout


def test_a_finished_run_is_not_overwritten(toy_run, toy_corpus, script):
    before = (toy_run / "summary.json").read_text()
    result = script("train", *TOY, f"data.path={toy_corpus}", f"run_dir={toy_run}")
    assert result.returncode == 1
    assert "already holds a finished run, which training would overwrite" in result.stderr
    assert f"resume={toy_run}" in result.stderr
    assert (toy_run / "summary.json").read_text() == before


@pytest.mark.parametrize("kind", ["tensorboard", "none"])
def test_other_loggers_work(kind, toy_corpus, script, tmp_path):
    run_dir = tmp_path / "run"
    result = script("train", *TOY, f"data.path={toy_corpus}", f"run_dir={run_dir}",
                    f"logger={kind}", "trainer.max_steps=2", "decode=greedy")
    assert result.returncode == 0, result.stderr
    assert (run_dir / "metrics").exists()  # what findings are found in
    assert bool(list(run_dir.glob("tensorboard/**/events*"))) == (kind == "tensorboard")
    assert not (run_dir / "wandb").exists()
