"""Comparisons agree with sacrebleu's paired tests, and refuse what cannot be compared."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import sacrebleu
from tiny_evaluation import tiny_evaluation, write_lines

from seq2seq.cli import compare as command
from seq2seq.errors import RunError
from seq2seq.evaluation.compare import compare, in_words
from seq2seq.evaluation.record import Evaluation

WORDS = ["un", "deux", "trois", "quatre", "cinq", "six", "sept", "huit", "neuf", "dix"]
REFERENCES = [" ".join(WORDS[i % 5 : i % 5 + 4 + i % 3]) for i in range(12)]
SOURCES = [str(i) for i in range(12)]
GOOD = [line if i % 6 else line.replace("quatre", "x") for i, line in enumerate(REFERENCES)]
BAD = [line if i % 3 else " ".join(reversed(line.split())) for i, line in enumerate(REFERENCES)]


def two_runs(folder: Path) -> list[str]:
    for name, hypotheses in (("good", GOOD), ("bad", BAD)):
        where = folder / name / "evaluation" / "mine-test"
        tiny_evaluation(where, hypotheses, REFERENCES, SOURCES)
    return [str(folder / "good"), str(folder / "bad")]


@pytest.fixture
def runs(tmp_path):
    """Folders of two evaluations of one test set."""
    return two_runs(tmp_path)


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    return compare(two_runs(tmp_path_factory.mktemp("compared")))


def test_the_bootstrap_is_that_of_the_sacrebleu_command(compared, tmp_path):
    for name, lines in (("good", GOOD), ("bad", BAD), ("references", REFERENCES)):
        write_lines(tmp_path / f"{name}.txt", lines)
    result = subprocess.run(
        [sys.executable, "-m", "sacrebleu", "references.txt", "-i", "good.txt", "bad.txt",
         "-m", "bleu", "chrf", "ter", "--paired-bs", "-f", "text", "-w", "6"],
        cwd=tmp_path, capture_output=True, text=True, check=True,
    )  # fmt: skip
    for test in compared.tests:
        assert f"{test.value:.6f}" in result.stdout
    ours = [f"{test.p_bootstrap:.4f}" for test in compared.tests if test.system == "bad"]
    assert ours == re.findall(r"p = ([\d.]+)\)", result.stdout)


def test_four_sentences_that_differ_are_no_proof(compared):
    """Two signs of 16 are as one-sided as these, by chance; `--paired-ar` says 0.0001."""
    own = next(test for test in compared.tests if (test.score, test.system) == ("BLEU", "bad"))
    assert own.p_randomisation == pytest.approx(1 / 8, abs=0.015)
    assert not own.significant


def test_no_difference_is_not_significant(runs, tmp_path):
    """Other translations, but the same statistics."""
    others = [line if i % 6 else line.replace("quatre", "y") for i, line in enumerate(REFERENCES)]
    assert others != GOOD
    tiny_evaluation(tmp_path / "equal", others, REFERENCES, SOURCES)
    for test in compare([runs[0], str(tmp_path / "equal")]).tests[1::2]:
        assert (test.difference, test.p_bootstrap, test.p_randomisation) == (0, 1, 1)
        assert not test.significant


def test_differences_are_by_chrf(compared):
    chrf = [
        [sacrebleu.sentence_chrf(*pair).score for pair in zip(own, zip(REFERENCES), strict=True)]
        for own in (GOOD, BAD)
    ]
    spread = [abs(a - b) for a, b in zip(*chrf, strict=True)]
    assert [spread[one.line - 1] for one in compared.differences] == sorted(
        (value for value in spread if value), reverse=True
    )
    first = compared.differences[0]
    row = first.line - 1
    assert (first.source, first.reference, first.translations) == (
        SOURCES[row], REFERENCES[row], [GOOD[row], BAD[row]],
    )  # fmt: skip


def test_the_answer_is_written_as_text_and_json(runs, tmp_path, capsys, monkeypatch):
    argv = ["compare", *runs, "--scores", "BLEU", "--output"]
    monkeypatch.setattr(sys, "argv", [*argv, str(tmp_path / "c.json")])
    command.main()
    printed = capsys.readouterr().out
    assert printed == in_words(compare(runs, ["BLEU"]))
    assert "# good, bad on reference.txt, 12 sentences" in printed
    assert re.search(r"\| BLEU +\| bad +\| \d+\.\d\d \| -\d+\.\d\d +\| 0\.\d{4} ", printed)
    written = json.loads((tmp_path / "c.json").read_text())
    assert written["systems"] == ["good", "bad"]
    monkeypatch.setattr(sys, "argv", [*argv, str(tmp_path / "c.md")])
    command.main()
    assert (tmp_path / "c.md").read_text() == printed
    faults = {
        "c.md": "exists already",
        "c.txt": "ends in .md, .json or .html",
        "none/c.md": "does not exist: make it",
        "full.md": "choose another place",
    }
    monkeypatch.setattr("secrets.token_hex", lambda _: "0123abcd")
    (tmp_path / "full.md.0123abcd.partial").mkdir()  # where it is to be written first
    for output, why in faults.items():
        monkeypatch.setattr(sys, "argv", [*argv, str(tmp_path / output)])
        with pytest.raises(SystemExit) as stopped:
            command.main()
        assert stopped.value.code == 1
        assert why in capsys.readouterr().err


def record_of(run: str) -> Path:
    return Path(run) / "evaluation" / "mine-test" / "evaluation.json"


def test_other_test_sets_are_refused(runs, tmp_path):
    tiny_evaluation(tmp_path / "other", ["oui"], ["non"], ["no"])
    with pytest.raises(RunError, match=r"not comparable, since no test set .*\n  .*good: refer"):
        compare([runs[0], str(tmp_path / "other")])


def test_other_sources_are_refused(runs, tmp_path):
    tiny_evaluation(tmp_path / "other", BAD, REFERENCES, SOURCES[::-1])
    with pytest.raises(RunError, match=r"good and other cannot be compared: .* sources differ"):
        compare([runs[0], str(tmp_path / "other")])
    tiny_evaluation(tmp_path / "none", BAD, REFERENCES, None)  # nobody knows better
    assert compare([runs[0], str(tmp_path / "none")], ["BLEU"]).differences[0].source is not None
    with pytest.raises(RunError, match=r"good and other cannot be compared: .* sources differ"):
        compare([str(tmp_path / "none"), runs[0], str(tmp_path / "other")])


def test_other_signatures_are_refused(runs):
    record = Evaluation.read(record_of(runs[1]))
    scores = [replace(s, signature=s.signature.replace("13a", "intl")) for s in record.scores]
    replace(record, scores=scores).write(record_of(runs[1]))
    with pytest.raises(RunError, match=r"be compared: their BLEU .*tok:13a.* and .*tok:intl"):
        compare(runs)
    assert compare(runs, ["chrF2"]).tests
    replace(record, scores=scores[1:]).write(record_of(runs[1]))
    with pytest.raises(RunError, match=r"evaluation\.json has no BLEU: evaluate again"):
        compare(runs)


def test_places_that_hold_nothing_or_too_much_are_refused(runs, tmp_path):
    with pytest.raises(RunError, match="one evaluation has nothing to be compared with"):
        compare(runs[:1])
    (tmp_path / "empty").mkdir()
    with pytest.raises(RunError, match=r"empty holds no evaluation: make one, seq2seq ev"):
        compare([runs[0], str(tmp_path / "empty")])
    with pytest.raises(RunError, match="names one of them twice"):
        compare([runs[0], runs[0]])
    with pytest.raises(RunError, match="names one of them twice"):
        compare([str(record_of(runs[0])), f"{runs[0]}/../good"])
    tiny_evaluation(tmp_path / "bad" / "evaluation" / "mine-test-2", GOOD, REFERENCES, SOURCES)
    with pytest.raises(RunError, match=r"bad has several evaluations that fit: name one of .*-2"):
        compare(runs)
    named = compare([runs[0], f"{runs[1]}/evaluation/mine-test"], ["BLEU"])
    assert named.systems == ["good", "mine-test"]


def test_damaged_folders_are_named(runs, tmp_path):
    folder = tmp_path / "bad" / "evaluation" / "mine-test"
    (folder / "hypothesis.txt").write_text("autre\n" * 12)
    with pytest.raises(RunError, match=r"hypothesis\.txt was changed after it was scored"):
        compare(runs)
    (folder / "evaluation.json").write_text("{")
    with pytest.raises(RunError, match=r"cannot read .*evaluation\.json"):
        compare(runs)
