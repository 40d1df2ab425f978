"""samples.jsonl: the same sentences each time, the worst ones; and so it is when a run goes on."""

from __future__ import annotations

import json
import math
from pathlib import Path
from types import SimpleNamespace

import pytest
import sacrebleu
from tiny_training import tiny_fit, tiny_task

from seq2seq.config import DecodeConfig
from seq2seq.data.tokenizer import Tokenizer
from seq2seq.data.vocabularies import Vocabularies
from seq2seq.evaluation.metrics import corpus_scores
from seq2seq.inference.translation import Translation
from seq2seq.report.run import read_samples
from seq2seq.training.callbacks import samples
from seq2seq.training.callbacks.samples import Samples
from seq2seq.training.run_folder import Run
from seq2seq.training.trainer import Trainer
from seq2seq.training.validation import Validation

PAIRS = [
    ("a man reads a book", "un homme lit un livre"),
    ("hello", "bonjour"),
    ("the house is big and old", "la maison est grande et vieille"),
    ("two dogs", "deux chiens"),
]
GARBAGE = "zut zut zut zut zut zut"


def translation(reference: str, right: bool) -> Translation:
    text = reference if right else GARBAGE
    tokens = text.split()
    scores = [-0.1 * (n + 1) for n in range(len(tokens) + right)]  # no end mark if it is wrong
    return Translation(text, sum(scores) / len(scores), right, tokens, scores)


class Scripted(Validation):
    """At step 2n the first n translations are right, and the others garbage."""

    def __init__(self, run_dir: Path):
        shared = Tokenizer.train(["a b"], 260)
        both = Vocabularies(shared, shared)
        run = Run(run_dir, {}, "32-true")
        super().__init__(run, PAIRS, both, DecodeConfig())
        self.best = math.inf  # ships nothing

    def score(self, model, step):
        right = step // 2
        found = [translation(target, row < right) for row, (_, target) in enumerate(PAIRS)]
        self.seconds = 2.0
        lines, references = [str(one) for one in found], [target for _, target in PAIRS]
        return corpus_scores(lines, references, ["BLEU"])[0].value, found


def run(run_dir: Path, steps: int = 8, count: int = 2, **options) -> Trainer:
    run_dir.mkdir(exist_ok=True)
    bleu = Scripted(run_dir)
    return tiny_fit(
        tiny_task(), [Samples(run_dir, count, bleu)], steps, validation=bleu, run_dir=run_dir,
        save_every=1000, **options,
    )  # fmt: skip


def saved(run_dir: Path, step: int) -> Path:
    """A copy of the checkpoint around a validation; the run itself keeps the newest two."""
    run(run_dir / f"until-{step}", steps=step)
    return run_dir / f"until-{step}" / "checkpoints" / f"step-{step:08d}.ckpt"


def test_sentences_are_the_same_at_each_validation_and_spread_over_lengths(tmp_path):
    run(tmp_path)
    lines = read_samples(tmp_path)
    assert [line["step"] for line in lines] == [2, 4, 6, 8]
    for line in lines:
        # Of four, ordered by words (1, 3, 0, 2), the middles of two halves.
        assert [one["index"] for one in line["sentences"]] == [3, 2]
        right = line["step"] // 2
        hypotheses = [pair[1] if row < right else GARBAGE for row, pair in enumerate(PAIRS)]
        bleu = sacrebleu.corpus_bleu(hypotheses, [[target for _, target in PAIRS]]).score
        assert line["bleu"] == pytest.approx(bleu, abs=1e-4)
        for one in line["sentences"]:
            row = one["index"]
            assert (one["source"], one["reference"]) == PAIRS[row]
            assert one["hypothesis"] == hypotheses[row]
            chrf = sacrebleu.sentence_chrf(hypotheses[row], [PAIRS[row][1]]).score
            assert one["chrf"] == pytest.approx(chrf, abs=0.01)
            assert one["tokens"] == hypotheses[row].split()
            mean = sum(one["token_log_probs"]) / len(one["token_log_probs"])
            assert one["score"] == pytest.approx(mean, abs=1e-4)
            assert len(one["token_log_probs"]) == len(one["tokens"]) + (row < right)


def test_the_worst_have_the_lowest_chrf_of_all(tmp_path):
    run(tmp_path)
    for line in read_samples(tmp_path):
        right = line["step"] // 2
        chrf = [100.0 if row < right else sacrebleu.sentence_chrf(GARBAGE, [target]).score
                for row, (_, target) in enumerate(PAIRS)]
        worst = [one["index"] for one in line["worst"]]
        assert worst == sorted(range(4), key=lambda row: chrf[row])[:2]


def test_figures_of_translations_are_logged(tmp_path):
    logged = run(tmp_path, steps=2).metrics
    hypotheses = [PAIRS[0][1], *[GARBAGE] * 3]
    references = [[target for _, target in PAIRS]]
    chrf = sacrebleu.corpus_chrf(hypotheses, references).score
    assert logged["val/chrf"] == pytest.approx(chrf)
    assert logged["val/length_ratio"] == pytest.approx((5 + 3 * 6) / (5 + 1 + 6 + 2))
    assert logged["decode/degenerate_share"] == 0.75
    assert logged["decode/unfinished_share"] == 0.75
    assert logged["decode/sentences_per_second"] == 4 / 2.0
    assert logged["decode/tokens_per_second"] == (6 + 3 * 6) / 2.0
    assert logged["decode/log_prob_per_token"] == pytest.approx(-0.35)  # 0.1 to 0.6, each time


@pytest.mark.parametrize("from_step", [2, 4, 6])
def test_a_run_that_goes_on_has_the_file_of_one_that_never_stopped(tmp_path, from_step):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    run(whole)
    run(parts, steps=6)
    file = parts / "samples.jsonl"
    with file.open("a", encoding="utf-8") as lines:
        lines.write('{"step": 8, "sentences": [{"ind')  # killed while it wrote
    run(parts, checkpoint=saved(tmp_path, from_step))
    assert file.read_bytes() == (whole / "samples.jsonl").read_bytes()


def test_a_run_that_only_has_to_end_knows_its_sentences(tmp_path):
    """Findings at the end of a run need them; no validation comes after the last checkpoint."""
    run(tmp_path)
    ended = run(tmp_path, checkpoint=tmp_path / "checkpoints/step-00000008.ckpt")
    assert [line["step"] for line in ended.callbacks[0].lines] == [2, 4, 6, 8]


def test_none_are_kept_if_none_are_wanted(tmp_path):
    trainer = run(tmp_path, count=0)
    assert not (tmp_path / "samples.jsonl").exists()
    assert read_samples(tmp_path) == []
    assert "val/chrf" in trainer.metrics


def test_a_full_disk_stops_no_run(tmp_path, caplog, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    run(tmp_path, steps=4)
    checkpoint = saved(tmp_path, 2)
    before = (tmp_path / "samples.jsonl").read_bytes()
    monkeypatch.setattr(samples, "replace_text", full)
    assert run(tmp_path, steps=4, checkpoint=checkpoint).step == 4
    assert caplog.text.count("No space left on device") == 1
    assert (tmp_path / "samples.jsonl").read_bytes() == before


DAMAGED = ["{", "[]", "7", '{"step": null, "sentences": []}', '{"step": 2, "sentences": 5}',
           '{"step": true, "sentences": []}', "\0\0", "\udcff", ""]  # fmt: skip


def test_damaged_lines_go_and_good_ones_around_them_stay(tmp_path):
    good = [json.dumps({"step": step, "sentences": []}) for step in range(len(DAMAGED) + 1)]
    lines = [line for pair in zip(good, DAMAGED, strict=False) for line in pair]
    text = "\n".join([*lines, good[-1]])  # without an end of the last line
    (tmp_path / "samples.jsonl").write_bytes(text.encode("utf-8", "surrogateescape"))
    assert [line["step"] for line in read_samples(tmp_path)] == list(range(len(good)))
    run(tmp_path, steps=2)
    assert [line["step"] for line in read_samples(tmp_path)] == [0, 1, 2]
    text = (tmp_path / "samples.jsonl").read_text(encoding="utf-8")
    assert text.startswith("".join(f"{line}\n" for line in good[:2]))


@pytest.mark.parametrize(("size", "count"), [(0, 3), (1, 3), (3, 3), (10, 3), (1014, 10)])
def test_rows_are_spread_over_all_lengths(size, count):
    pairs = [("word " * (row * 7919 % 13), "mot") for row in range(size)]
    rows = Samples(Path(), count, SimpleNamespace(pairs=pairs)).rows
    lengths = [len(pairs[row][0].split()) for row in rows]
    assert len(set(rows)) == len(rows) == min(size, count)
    assert lengths == sorted(lengths)
    if size > 100:  # neither the shortest nor the longest tenth is left out
        assert lengths[0] <= 1
        assert lengths[-1] >= 11


def test_line_separators_inside_of_texts_end_no_line(tmp_path, monkeypatch):
    odd = "a\u2028b\x85c\x0bd\re"
    monkeypatch.setattr(f"{__name__}.PAIRS", [(odd, odd), *PAIRS[1:]])
    run(tmp_path, steps=4, count=4)
    run(tmp_path, steps=6, count=4)  # which reads what is there, and cuts it
    lines = read_samples(tmp_path)
    assert [line["step"] for line in lines] == [2, 4, 6]
    assert odd in [one["source"] for one in lines[0]["sentences"]]
