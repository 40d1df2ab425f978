"""Scores are sacrebleu's, to every digit, with its signatures."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
import sacrebleu

from seq2seq.errors import DataError
from seq2seq.evaluation.metrics import corpus_bleu, corpus_scores

REFERENCES = [
    "Le chat est assis sur le tapis.",
    "Elle n'a pas vu « le film » hier soir.",
    "Combien coûtent ces deux livres ?",
    "Nous partirons demain à 7 h 30.",
]
HYPOTHESES = [
    "Le chat est assis sur un tapis.",
    "elle n'a pas vu le film hier soir.",
    "Combien coûtent ces livres ?",
    "",
]


def test_scores_are_those_of_sacrebleu_functions():
    found = {score.name: score.value for score in corpus_scores(HYPOTHESES, REFERENCES)}
    assert found == {
        "BLEU": sacrebleu.corpus_bleu(HYPOTHESES, [REFERENCES]).score,
        "chrF2": sacrebleu.corpus_chrf(HYPOTHESES, [REFERENCES]).score,
        "TER": sacrebleu.corpus_ter(HYPOTHESES, [REFERENCES]).score,
    }
    assert 0 < found["BLEU"] < 100


def test_scores_and_signatures_are_those_of_the_sacrebleu_command(tmp_path):
    for name, lines in (("ref", REFERENCES), ("hyp", HYPOTHESES)):
        (tmp_path / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    command = ["-m", "sacrebleu", "ref", "-i", "hyp", "-m", "bleu", "chrf", "ter", "-w", "6"]
    result = subprocess.run(
        [sys.executable, *command], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    printed = [(m["name"], m["score"], m["signature"]) for m in json.loads(result.stdout)]
    ours = corpus_scores(HYPOTHESES, REFERENCES)
    assert [(s.name, round(s.value, 6), s.signature) for s in ours] == printed


def test_signatures_name_how_it_was_computed():
    bleu, chrf, ter = (score.signature for score in corpus_scores(HYPOTHESES, REFERENCES))
    assert bleu == f"nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:{sacrebleu.__version__}"
    assert chrf.startswith("nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no")
    assert ter.startswith("nrefs:1|case:lc|tok:tercom")


def test_bleu_alone_is_the_same_bleu():
    assert corpus_bleu(HYPOTHESES, REFERENCES) == corpus_scores(HYPOTHESES, REFERENCES)[0].value


def test_a_perfect_translation_has_perfect_scores():
    values = [score.value for score in corpus_scores(REFERENCES, REFERENCES)]
    assert values == pytest.approx([100, 100, 0])


def test_case_counts():
    assert corpus_bleu([r.upper() for r in REFERENCES], REFERENCES) < 50


@pytest.mark.parametrize(("hypotheses", "references"), [(3, 4), (4, 3), (1, 0), (0, 0)])
def test_lists_of_different_lengths_are_refused_with_both(hypotheses, references):
    with pytest.raises(DataError, match=rf"{hypotheses} translations .* {references} references"):
        corpus_scores(HYPOTHESES[:hypotheses], REFERENCES[:references])


@pytest.mark.parametrize(("hypotheses", "references"), [(3, 4), (4, 3), (0, 0)])
def test_bleu_alone_refuses_lists_of_different_lengths(hypotheses, references):
    with pytest.raises(DataError):
        corpus_bleu(HYPOTHESES[:hypotheses], REFERENCES[:references])
