"""Scores are sacrebleu's, to every digit, with its signatures."""

from __future__ import annotations

import json
import math
import random
import re
import subprocess
import sys

import pytest
import sacrebleu
import sacremoses

from seq2seq.errors import DataError
from seq2seq.evaluation.metrics import chrf_scores, corpus_scores, length_ratio
from seq2seq.evaluation.record import Score

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


def damaged_corpus(sentences: int) -> tuple[list[str], list[str]]:
    """References of random words, and hypotheses that lack some of them and have others."""
    rng = random.Random(0)
    references = [rng.choices("abcdefgh", k=rng.randint(6, 12)) for _ in range(sentences)]
    hypotheses = [[rng.choice([word] * 8 + ["i", "j k"]) for word in own if rng.random() < 0.95]
                  for own in references]  # fmt: skip
    return [" ".join(own) for own in hypotheses], [" ".join(own) for own in references]


def corpus_bleu(hypotheses: list[str], references: list[str]) -> float:
    return corpus_scores(hypotheses, references, ["BLEU"])[0].value


def by_name(**options) -> dict[str, Score]:
    return {score.name: score for score in corpus_scores(HYPOTHESES, REFERENCES, **options)}


def test_scores_are_those_of_sacrebleu_functions():
    found = {name: score.value for name, score in by_name().items()}
    expected = {
        "BLEU": sacrebleu.corpus_bleu(HYPOTHESES, [REFERENCES]).score,
        "chrF2": sacrebleu.corpus_chrf(HYPOTHESES, [REFERENCES]).score,
        "chrF2++": sacrebleu.corpus_chrf(HYPOTHESES, [REFERENCES], word_order=2).score,
        "TER": sacrebleu.corpus_ter(HYPOTHESES, [REFERENCES]).score,
    }
    assert {name: found[name] for name in expected} == expected
    assert 0 < found["BLEU"] < 100


@pytest.mark.parametrize(("options", "chrf"), [((), "chrF2"), (("-cw", "2"), "chrF2++")])
def test_scores_intervals_and_signatures_are_those_of_the_sacrebleu_command(
    options, chrf, tmp_path
):
    # Of few sentences, some resamples would be all wrong, and the command stumbles over these.
    hypotheses, references = damaged_corpus(10)
    hypotheses, references = [*hypotheses, *HYPOTHESES], [*references, *REFERENCES]
    for name, lines in (("ref", references), ("hyp", hypotheses)):
        (tmp_path / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    command = ["-m", "sacrebleu", "ref", "-i", "hyp", "-m", "bleu", "chrf", "ter", "-w", "6"]
    result = subprocess.run(
        [sys.executable, *command, "--confidence", *options],
        cwd=tmp_path, capture_output=True, text=True, check=True,
    )  # fmt: skip
    ours = {score.name: score for score in corpus_scores(hypotheses, references, intervals=True)}
    for theirs, name in zip(json.loads(result.stdout), ("BLEU", chrf, "TER"), strict=True):
        own = ours[name]
        assert (round(own.value, 6), name) == (theirs["score"], theirs["name"])
        assert own.signature == theirs["signature"].replace("bs:1000|seed:12345|", "")
        assert (own.low + own.high) / 2 == pytest.approx(theirs["confidence_mean"], abs=1e-5)
        assert (own.high - own.low) / 2 == pytest.approx(theirs["confidence_var"], abs=1e-5)


def naive_bleu(hypotheses: list[str], references: list[str]) -> float:
    """Papineni et al. 2002 without smoothing, on words between spaces."""
    matches, totals, lengths = [0] * 4, [0] * 4, [0, 0]
    for hypothesis, reference in zip(hypotheses, references, strict=True):
        words = hypothesis.split(), reference.split()
        lengths = [length + len(own) for length, own in zip(lengths, words, strict=True)]
        for n in range(4):
            grams = [[tuple(w[i : i + n + 1]) for i in range(len(w) - n)] for w in words]
            totals[n] += len(grams[0])
            matches[n] += sum(min(grams[0].count(g), grams[1].count(g)) for g in set(grams[0]))
    brevity = min(1.0, math.exp(1 - lengths[1] / lengths[0]))
    precisions = [match / total for match, total in zip(matches, totals, strict=True)]
    return 100 * brevity * math.prod(precisions) ** 0.25


def test_bleu_is_that_of_its_definition():
    hypotheses, references = damaged_corpus(20)
    expected = naive_bleu(hypotheses, references)
    assert 20 < expected < 80
    assert corpus_bleu(hypotheses, references) == pytest.approx(expected)


def test_bleu_tok_is_what_papers_on_multi30k_score():
    """Lower-cased, then punctuation-normalised, then tokenised with escapes: in this order."""

    def form(text: str) -> str:
        text = sacremoses.MosesPunctNormalizer(lang="fr").normalize(text.lower())
        return sacremoses.MosesTokenizer(lang="fr").tokenize(text, escape=True, return_str=True)

    hypotheses, references = ([form(t) for t in side] for side in (HYPOTHESES, REFERENCES))
    assert references[1] == "elle n&apos; a pas vu &quot; le film &quot; hier soir ."
    expected = sacrebleu.corpus_bleu(hypotheses, [references], tokenize="none", force=True).score
    found = by_name()
    assert found["BLEU-tok"].value == expected
    assert found["BLEU-tok"].value == pytest.approx(naive_bleu(hypotheses, references))
    assert re.match(
        r"text:lower\+punctuation\+tokens\|lang:fr\|sacremoses:[\d.]+\|nrefs:1.*tok:none",
        found["BLEU-tok"].signature,
    )


def test_punctuation_alone_does_not_count_in_bleu_punct():
    typographic = [line.replace("'", "’").replace("« ", "“").replace(" »", "”")
                   for line in REFERENCES]  # fmt: skip
    scores = {s.name: s.value for s in corpus_scores(typographic, REFERENCES)}
    assert scores["BLEU-punct"] == pytest.approx(100)
    assert scores["BLEU"] < 90


def test_a_corpus_that_is_all_wrong_has_intervals_too():
    for score in corpus_scores(["x", ""], ["un deux trois quatre cinq", "six"], intervals=True):
        assert score.low <= score.value <= score.high, score


def test_sacrebleu_does_not_log_what_it_computes(caplog):
    with caplog.at_level("INFO"):
        by_name(intervals=True)
    assert not caplog.records


def test_chrf_of_a_corpus_and_its_sentences_are_sacrebleus():
    corpus, each = chrf_scores(HYPOTHESES, REFERENCES)
    assert corpus == sacrebleu.corpus_chrf(HYPOTHESES, [REFERENCES]).score
    assert each == [sacrebleu.sentence_chrf(hypothesis, [reference]).score
                    for hypothesis, reference in zip(HYPOTHESES, REFERENCES, strict=True)]


def test_the_length_ratio_is_that_of_bleus_tokens():
    assert length_ratio(["a b c ."], ["a b."]) == pytest.approx(4 / 3)
    odd = ["  un &quot;deux&quot;, 3.5-4 ! \n", "", "«x»…"]
    for hypotheses, references in ((HYPOTHESES, REFERENCES), (odd, REFERENCES[:3]), ([""], [""])):
        expected = sacrebleu.BLEU(force=True).corpus_score(hypotheses, [references]).ratio
        assert length_ratio(hypotheses, references) == expected


def test_signatures_name_how_it_was_computed():
    found = {name: score.signature for name, score in by_name(intervals=True).items()}
    bleu = f"nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:{sacrebleu.__version__}"
    assert found["BLEU"] == bleu
    assert found["BLEU-punct"].endswith(bleu)
    assert found["chrF2"].startswith("nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no")
    assert found["chrF2++"].startswith("nrefs:1|case:mixed|eff:yes|nc:6|nw:2|space:no")
    assert found["TER"].startswith("nrefs:1|case:lc|tok:tercom")


def test_bleu_alone_is_the_same_bleu():
    assert corpus_scores(HYPOTHESES, REFERENCES, ["BLEU"]) == [by_name()["BLEU"]]


@pytest.mark.parametrize(("hypotheses", "references"), [(3, 4), (4, 3), (1, 0), (0, 0)])
def test_lists_of_different_lengths_are_refused_with_both(hypotheses, references):
    with pytest.raises(DataError, match=rf"{hypotheses} translations .* {references} references"):
        corpus_scores(HYPOTHESES[:hypotheses], REFERENCES[:references])
